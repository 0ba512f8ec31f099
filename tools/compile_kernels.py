"""Compile every Triton kernel for GPUs that need not be here, and say what each one takes of a multiprocessor.

    python tools/compile_kernels.py                  a table of all cases (two minutes)
    python tools/compile_kernels.py --write          the same into benchmarks/results/kernels.md
    python tools/compile_kernels.py --main --json    attention of the common models only, a line of JSON a kernel

The launches are the real ones: mini_vllm's own functions are called with tensors that have shapes and no data, and what
they would launch is compiled ahead of time instead, tiles, warps and stages included. ptxas, which comes with Triton,
says how many registers a thread takes and what it had to spill to memory; Triton says how much shared memory a program
takes. Neither compares that with what a GPU has: the last column here does.

Triton must not be interpreting (TRITON_INTERPRET unset).
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
import triton  # noqa: E402
from torch import Tensor  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from mini_vllm.attention import (  # noqa: E402
    AttentionMetadata,
    AttentionSpec,
    PackedRequest,
    Rotation,
    paged_attention,
    triton_simple,
    write_kv,
)
from mini_vllm.attention.triton_backend import TritonBackend  # noqa: E402
from mini_vllm.attention.triton_simple import SimpleTritonBackend  # noqa: E402
from mini_vllm.models.layers import fused_triton  # noqa: E402
from mini_vllm.models.moe import grouped_triton  # noqa: E402
from mini_vllm.models.moe.experts import run_triton  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "kernels.md"
META = torch.device("meta")
# Shared memory that one program may have, in bytes, by compute capability: CUDA C++ Programming Guide, "Technical
# Specifications per Compute Capability". 86 and 89 are the consumer cards of the same generations.
SHARED_MEMORY = {80: 163 << 10, 86: 99 << 10, 89: 99 << 10, 90: 227 << 10}
TARGETS = (80, 90)
TYPES = {
    torch.bfloat16: "*bf16", torch.float16: "*fp16", torch.float32: "*fp32",
    torch.int32: "*i32", torch.int64: "*i64",
}  # fmt: skip


@dataclass(frozen=True)
class Launch:
    """One launch as it was asked for: the kernel, its arguments by name, and the options of the compiler."""

    kernel: Any
    arguments: Mapping[str, Any]
    options: Mapping[str, int]


@dataclass(frozen=True)
class Usage:
    """What a compiled kernel takes: registers of a thread, bytes that it spills, bytes of shared memory."""

    registers: int
    spilled: int
    shared: int
    instructions: tuple[str, ...]  # those of the tensor cores, and cp.async


# --- from a call to what it launches ------------------------------------------------------------------------------


class Recorder:
    """Stands in for a kernel: kernel[grid](...) notes the launch and does nothing."""

    def __init__(self, kernel: Any, launches: list[Launch]) -> None:
        self.kernel, self.launches = kernel, launches

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return self.record

    def record(self, *args: Any, **options: Any) -> None:
        arguments = dict(zip(self.kernel.arg_names, args, strict=False))
        arguments |= {name: options.pop(name) for name in list(options) if name in self.kernel.arg_names}
        self.launches.append(Launch(self.kernel, arguments, options))


@contextmanager
def recording(*modules: Any) -> Iterator[list[Launch]]:
    """Kernels of these modules are not launched but noted."""
    launches: list[Launch] = []
    with ExitStack() as stack:
        for module in modules:
            for name, kernel in vars(module).copy().items():
                if name.endswith("_kernel") and isinstance(kernel, triton.JITFunction):
                    stack.enter_context(patch.object(module, name, Recorder(kernel, launches)))
        yield launches


def compile_launch(launch: Launch, capability: int) -> Usage:
    """Compile for one GPU, with the specialisation that a launch gets: 1 is a constant, multiples of 16 are known."""
    names = launch.kernel.arg_names
    signature, constants, attributes = {}, {}, {}
    unspecialised = set(launch.kernel.do_not_specialize or ())
    for index, parameter in enumerate(launch.kernel.params):
        name, value = parameter.name, launch.arguments[parameter.name]
        free = name in unspecialised or index in unspecialised
        if parameter.is_constexpr or value is None or (type(value) is int and value == 1 and not free):
            signature[name], constants[(index,)] = "constexpr", value
        elif isinstance(value, Tensor):
            signature[name], attributes[(index,)] = TYPES[value.dtype], [["tt.divisibility", 16]]
        elif isinstance(value, float):
            signature[name] = "fp32"
        else:
            signature[name] = "i32"
            if value % 16 == 0 and not free:
                attributes[(index,)] = [["tt.divisibility", 16]]
    assert list(signature) == list(names)
    source = ASTSource(fn=launch.kernel, signature=signature, constexprs=constants, attrs=attributes)
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=dict(launch.options))
    ptx = compiled.asm["ptx"]
    registers, spilled = ask_ptxas(ptx)
    found = re.findall(r"wgmma\.mma_async|mma\.sync|cp\.async(?=\.c[ag])", ptx)
    return Usage(registers, spilled, compiled.metadata.shared, tuple(sorted(set(found))))


def ask_ptxas(ptx: str) -> tuple[int, int]:
    """Registers of a thread and bytes spilled (stores and loads), as ptxas reports them."""
    target = re.search(r"\.target\s+(sm_\w+)", ptx)
    assert target
    ptxas = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        command = [str(ptxas), "-v", f"--gpu-name={target[1]}", str(source), "-o", os.devnull]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = re.search(r"Used (\d+) registers", report)
    spills = re.findall(r"(\d+) bytes spill (?:stores|loads)", report)
    assert registers, report
    assert spills, report
    return int(registers[1]), sum(map(int, spills))


# --- the launches of the engine -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A layer's attention: dtype, heads, and the options that are compiled in."""

    dtype: torch.dtype = torch.bfloat16
    num_heads: int = 32
    num_kv_heads: int = 8
    head_dim: int = 128
    block_size: int = 16
    sliding_window: int | None = None
    has_sinks: bool = False

    def __str__(self) -> str:
        heads = (
            f"{self.num_heads}/{self.num_kv_heads} heads of {self.head_dim}, {str(self.dtype).removeprefix('torch.')}"
        )
        extra = [f"blocks of {self.block_size}"] if self.block_size != 16 else []
        extra += [f"window {self.sliding_window}"] if self.sliding_window else []
        extra += ["sinks"] if self.has_sinks else []
        return ", ".join([heads, *extra])


MAIN_CASES = (
    Case(),  # Llama-3.1-8B
    Case(num_heads=24),  # Llama-3.2-3B: the rows of a tile are not a multiple of the group
)
CASES = (
    *MAIN_CASES,
    Case(num_heads=16),  # Qwen3-0.6B
    Case(num_heads=64),  # Qwen3-32B
    Case(num_heads=40),  # Qwen3-14B
    Case(dtype=torch.float16),
    Case(dtype=torch.float32),
    Case(num_heads=8),
    Case(block_size=1),
    Case(block_size=8),
    Case(block_size=32),
    Case(block_size=64),
    Case(sliding_window=4096),
    Case(num_heads=8, num_kv_heads=2, head_dim=16),
    Case(num_heads=8, num_kv_heads=4, head_dim=32, dtype=torch.float32),
    Case(num_kv_heads=1, num_heads=64),  # multi-query attention: all heads are rows of one tile
    Case(num_kv_heads=1, num_heads=128),
    Case(num_kv_heads=1, num_heads=71, head_dim=64),  # Falcon-7B
    Case(num_kv_heads=1, num_heads=64, head_dim=256),
    Case(num_kv_heads=1, num_heads=64, dtype=torch.float32),
    Case(head_dim=64),
    Case(num_kv_heads=8, num_heads=64, head_dim=64, sliding_window=128, has_sinks=True),
    Case(head_dim=80),
    Case(head_dim=256),
    Case(head_dim=256, dtype=torch.float32),
)


def attention_launches(case: Case, capability: int) -> Iterator[tuple[str, Launch]]:
    """Everything that one layer's attention launches for a batch of a decode and a chunk, over both Triton rungs."""
    requests = [PackedRequest(range(-(-4096 // case.block_size)), start, n) for start, n in ((4000, 1), (512, 512))]
    metadata = AttentionMetadata.pack(requests, case.block_size, META)
    heads = [case.num_heads, case.num_kv_heads, case.num_kv_heads]
    qkv = torch.empty(513, sum(heads), case.head_dim, dtype=case.dtype, device=META)
    query, key, value = qkv.split(heads, dim=1)
    cache = torch.empty(512, case.block_size, case.num_kv_heads, case.head_dim, dtype=case.dtype, device=META)
    rotation = Rotation(*torch.empty(2, 513, 1, case.head_dim, dtype=case.dtype, device=META))
    sinks = torch.empty(case.num_heads, device=META) if case.has_sinks else None
    spec = AttentionSpec(case.num_heads, case.num_kv_heads, case.head_dim, 0.1, case.sliding_window, case.dtype, sinks)
    with recording(paged_attention, triton_simple, write_kv) as launches:
        backend = TritonBackend(generation=capability // 10)
        backend.write_kv(key, value, cache, cache, metadata)
        backend.rotate_and_write_kv(query, key, value, rotation, (cache, cache), metadata)
        for rung in (backend, SimpleTritonBackend())[: 1 if case.has_sinks else 2]:
            rung.attend(query, cache, cache, rung.plan(metadata, spec))
    for launch in launches:
        name = launch.kernel.__name__.removesuffix("_kernel")
        if name == "attention":
            name = "attention, decode" if launch.arguments["BY_SPANS"] else "attention, prefill"
        yield name, launch


def elementwise_launches(dtype: torch.dtype, size: int = 4096) -> Iterator[tuple[str, Launch]]:
    """The fused kernels between the matrix products of a layer."""
    x, residual, weight = (torch.empty(*shape, dtype=dtype, device=META) for shape in ((7, size), (7, size), (size,)))
    heads = torch.empty(7, 48, 128, dtype=dtype, device=META)[:, :32]
    with recording(fused_triton) as launches:
        fused_triton.rms_norm(heads, torch.empty(128, dtype=dtype, device=META), 1e-6)
        fused_triton.add_rms_norm(x, residual, weight, 1e-6)
        fused_triton.silu_mul(torch.empty(7, 2 * size, dtype=dtype, device=META))
    yield from zip(("rms_norm of heads", "add_rms_norm", "silu_mul"), launches, strict=True)


def expert_launches(dtype: torch.dtype) -> Iterator[tuple[str, Launch]]:
    """The two products of a layer of experts, in the sizes of Qwen3-30B-A3B."""
    weights = [torch.empty(128, *shape, dtype=dtype, device=META) for shape in ((1536, 2048), (2048, 768))]
    chosen = torch.empty(7, 8, dtype=torch.int64, device=META)
    with recording(grouped_triton) as launches:
        run_triton(torch.empty(7, 2048, dtype=dtype, device=META), chosen, *weights)
    yield from zip(("experts, gate and up", "experts, down"), launches, strict=True)


# --- the table ----------------------------------------------------------------------------------------------------


def compile_attention(cases: Sequence[Case]) -> Iterator[tuple[str, str, int, Usage]]:
    """(kernel, case, capability, usage) of the attention kernel, decodes and chunks."""
    for case in cases:
        for capability in TARGETS:
            for name, launch in attention_launches(case, capability):
                if name.startswith("attention"):
                    yield name, str(case), capability, compile_launch(launch, capability)


def compile_others() -> Iterator[tuple[str, str, int, Usage]]:
    """(kernel, case, capability, usage) of a layer's other kernels."""
    for case in (Case(), Case(dtype=torch.float32)):
        for capability in TARGETS:
            for name, launch in attention_launches(case, capability):
                if not name.startswith("attention"):
                    yield name, str(case), capability, compile_launch(launch, capability)


def compile_elementwise() -> Iterator[tuple[str, str, int, Usage]]:
    """(kernel, case, capability, usage) of the kernels between the matrix products, and of experts."""
    for dtype in (torch.bfloat16, torch.float32):
        for name, launch in chain(elementwise_launches(dtype), expert_launches(dtype)):
            for capability in TARGETS:
                yield name, str(dtype).removeprefix("torch."), capability, compile_launch(launch, capability)


def compile_all() -> Iterator[tuple[str, str, int, Usage]]:
    """(kernel, case, capability, usage) of everything."""
    return chain(compile_attention(CASES), compile_others(), compile_elementwise())


def table() -> Iterator[str]:
    """Markdown, one row a kernel, case and GPU."""
    yield "| kernel | case | GPU | registers | spilled B | shared B | tensor cores, cp.async | fits |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, case, capability, usage in compile_all():
        yield (
            f"| {name} | {case} | sm_{capability} | {usage.registers} | {usage.spilled} | {usage.shared:,} | "
            f"{', '.join(usage.instructions) or '-'} | {' '.join(fitting(capability, usage)) or 'NOWHERE'} |"
        )


def fitting(capability: int, usage: Usage) -> list[str]:
    """The GPUs of the same generation whose programs may have that much shared memory."""
    return [
        f"sm_{other}"
        for other, limit in SHARED_MEMORY.items()
        if other // 10 == capability // 10 and usage.shared <= limit
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    parser.add_argument("--main", action="store_true", help="attention in bfloat16 with head_dim 128 only")
    parser.add_argument("--json", action="store_true", help="a line of JSON a kernel")
    args = parser.parse_args()
    if not isinstance(paged_attention.attention_kernel, triton.JITFunction):
        raise SystemExit("TRITON_INTERPRET is set: Triton interprets, and compiles nothing")
    if args.json:
        for name, case, capability, usage in compile_attention(MAIN_CASES) if args.main else compile_all():
            row = {"kernel": name, "case": case, "capability": capability, "fits": fitting(capability, usage)}
            print(json.dumps(row | asdict(usage)), flush=True)
        return
    lines = [
        "# What the kernels take of a multiprocessor",
        "",
        f"{date.today()}, compiled ahead of time with Triton {triton.__version__} and its ptxas, on a machine without "
        "a GPU. Registers are of a thread (255 at most); spills are bytes of stores and loads; shared memory is of a "
        "program. `fits` names the GPUs of that generation whose limit the shared memory keeps: "
        + ", ".join(f"sm_{capability} {limit:,} B" for capability, limit in SHARED_MEMORY.items())
        + ".",
        "",
        "    python tools/compile_kernels.py --write",
        "",
    ]
    for line in table():
        lines.append(line)
        print(line, flush=True)
    if args.write:
        RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
