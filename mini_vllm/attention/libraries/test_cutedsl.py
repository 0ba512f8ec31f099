"""The decode kernel in CuTe DSL, run by a stand-in for the language: each thread of a program is a
thread here, warps meet at barriers, and tensors are views of the memory that the pointers lead to,
whose bounds are checked.
"""

import ctypes
import math
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="Triton has Linux wheels only")

from mini_vllm.attention import AttentionMetadata, PackedRequest, registry
from mini_vllm.attention.backend import AttentionBackend
from mini_vllm.attention.libraries.test_libraries import answers
from mini_vllm.attention.test_attention import assert_close, dense_attention, make_batch
from mini_vllm.attention.torch_backend import TorchBackend

BACKEND = "mini_vllm.attention.libraries.cutedsl_backend"
WARP = 32
HERE = threading.local()  # thread, block, warp and program of the thread that asks


class Memory:
    """A tensor in CuTe's order of dimensions; None in an index takes all of one."""

    def __init__(self, data: torch.Tensor) -> None:
        self.data = data
        self.element_type = float

    def __getitem__(self, index: Any) -> Any:
        index = index if isinstance(index, tuple) else (index,)
        assert len(index) == self.data.dim()
        assert all(i is None or i >= 0 for i in index)
        part = self.data[tuple(slice(None) if i is None else i for i in index)]
        return part.item() if part.dim() == 0 else Memory(part)

    def __setitem__(self, index: Any, value: float) -> None:
        assert all(i >= 0 for i in (index if isinstance(index, tuple) else (index,)))
        self.data[index] = value


class Pointer:
    def __init__(self, dtype: torch.dtype, address: int, space: str, assumed_align: int) -> None:
        assert space == "gmem"
        assert address % assumed_align == 0
        self.dtype, self.address = dtype, address


def make_tensor(pointer: Pointer, layout: tuple[Any, Any]) -> Memory:
    sizes, strides = layout
    last = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    buffer = (ctypes.c_char * ((last + 1) * pointer.dtype.itemsize)).from_address(pointer.address)
    return Memory(torch.frombuffer(buffer, dtype=pointer.dtype).as_strided(sizes, strides))


class Program:
    """What the threads of one program share."""

    def __init__(self, num_threads: int) -> None:
        self.barrier = threading.Barrier(num_threads)
        self.warps = [threading.Barrier(WARP) for _ in range(num_threads // WARP)]
        self.exchange = [0.0] * num_threads
        self.shared: dict[int, Memory] = {}
        self.lock = threading.Lock()
        self.errors: list[BaseException] = []


class SmemAllocator:
    def __init__(self) -> None:
        self.count = 0

    def allocate_tensor(self, dtype: Any, layout: Any, alignment: int) -> Memory:
        program, self.count = HERE.program, self.count + 1
        with program.lock:
            fresh = Memory(torch.full(layout[0], torch.nan))
            return program.shared.setdefault(self.count, fresh)


class Kernel:
    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function

    def __call__(self, *arguments: Any) -> "Kernel":
        bound = Kernel(self.function)
        bound.arguments = arguments
        return bound

    def launch(self, *, grid: Any, block: Any, stream: int) -> None:
        for place in product(*(range(size) for size in grid)):
            program = Program(block[0])
            threads = [
                threading.Thread(target=self.run, args=(i, place, program)) for i in range(block[0])
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for error in program.errors:
                if not isinstance(error, threading.BrokenBarrierError):
                    raise error

    def run(self, thread: int, place: tuple[int, ...], program: Program) -> None:
        HERE.thread, HERE.block, HERE.program = thread, place, program
        try:
            self.function(*self.arguments)
        except BaseException as error:  # launch() raises it, and no thread waits for this one
            program.errors.append(error)
            program.barrier.abort()
            program.warps[thread // WARP].abort()


def warp_reduction_sum(value: float, *, threads_in_group: int) -> float:
    """Every thread of the warp must come here, as the mask of the real one says."""
    program, thread = HERE.program, HERE.thread
    barrier = program.warps[thread // WARP]
    program.exchange[thread] = value
    barrier.wait()
    first = thread // threads_in_group * threads_in_group
    result = math.fsum(program.exchange[first : first + threads_in_group])
    barrier.wait()
    return result


def autovec_copy(source: Memory, target: Memory) -> None:
    assert source.data.stride() == (1,)
    assert source.data.data_ptr() % 16 == 0
    target.data.copy_(source.data)


def local_tile(tensor: Memory, tile: tuple[int], at: tuple[int]) -> Memory:
    return Memory(tensor.data.unfold(0, tile[0], tile[0])[at[0]])


def compile_launch(function: Any, *arguments: Any) -> Callable[..., None]:
    *dynamic, constexpr = arguments

    def call(*now: Any) -> None:
        assert len(now) == len(dynamic)
        return function(*now, constexpr)

    return call


class Number(float):
    inf = math.inf


def make_dsl() -> dict[str, ModuleType]:
    """The part of CuTe DSL that the kernel uses, by the name of its module."""
    names = ("cuda", "cuda.bindings", "cuda.bindings.driver", "cutlass", "cutlass.memory")
    made: dict[str, Any] = {
        name: ModuleType(name) for name in (*names, "cutlass.cute", "cutlass.cute.runtime")
    }
    cutlass, cute, memory = made["cutlass"], made["cutlass.cute"], made["cutlass.memory"]
    cutlass.cute, cutlass.memory, memory.SmemAllocator = cute, memory, SmemAllocator
    made["cuda"].bindings = made["cuda.bindings"]
    made["cuda.bindings"].driver = made["cuda.bindings.driver"]
    made["cuda.bindings.driver"].CUstream = int
    made["cutlass.cute.runtime"].make_ptr = Pointer
    cutlass.Float32, cutlass.Int32, cutlass.Int64 = Number, int, int
    cutlass.Float16, cutlass.BFloat16 = torch.float16, torch.bfloat16
    cutlass.Constexpr, cutlass.const_expr, cutlass.range_constexpr = Any, bool, range
    cutlass.min, cutlass.max = min, max
    cute.jit, cute.kernel, cute.compile = lambda function: function, Kernel, compile_launch
    cute.Tensor, cute.AddressSpace = Memory, type("AddressSpace", (), {"gmem": "gmem"})
    cute.make_tensor, cute.local_tile, cute.autovec_copy = make_tensor, local_tile, autovec_copy
    cute.make_layout = lambda sizes, stride=None: (sizes, stride)
    cute.make_rmem_tensor = lambda sizes, dtype: Memory(
        torch.full(
            sizes if isinstance(sizes, tuple) else (sizes,),
            torch.nan,
            dtype=torch.float64 if dtype is Number else torch.float32,
        )
    )
    cute.arch = type("arch", (), {"warp_reduction_sum": staticmethod(warp_reduction_sum)})
    cute.arch.thread_idx = staticmethod(lambda: (HERE.thread, 0, 0))
    cute.arch.block_idx = staticmethod(lambda: HERE.block)
    cute.arch.sync_threads = staticmethod(lambda: HERE.program.barrier.wait())
    cute.math = type("math", (), {"log2": staticmethod(lambda x, fastmath: math.log2(x))})
    cute.math.exp2 = staticmethod(lambda x, fastmath: 2.0**x)
    return made


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[AttentionBackend]:
    """The rung on the stand-in, with small spans, so that few keys fill several."""
    dsl = make_dsl()
    # pointers to int32 and float32 are asked for by the names of the language
    dsl["cutlass.cute.runtime"].make_ptr = lambda dtype, *rest, **more: Pointer(
        {Number: torch.float32, int: torch.int32}.get(dtype, dtype), *rest, **more
    )
    for name, module in dsl.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, BACKEND, raising=False)
    monkeypatch.setattr(registry, "why_not", lambda *arguments: None)
    made = registry.get_backend("cutedsl", torch.device("cpu"), torch.float16)
    monkeypatch.setattr(type(made), "write_kv", TorchBackend.write_kv)
    module = sys.modules[BACKEND]
    for name, value in {"SPLIT": 16, "MAX_SPLITS": 2, "NUM_THREADS": 32, "UNROLL": 2}.items():
        monkeypatch.setattr(module, name, value)
    yield made
    sys.modules.pop(BACKEND, None)


@pytest.mark.parametrize(
    ("lengths", "window", "shape"),
    [
        ((20,), None, {"group_size": 2}),
        pytest.param((0, 20), 300, {"num_kv_heads": 2}, marks=pytest.mark.slow),
        pytest.param((3, 15, 16, 40, 63, 64), None, {"group_size": 3}, marks=pytest.mark.slow),
        pytest.param((3, 17, 40, 70), 5, {"num_kv_heads": 1}, marks=pytest.mark.slow),
        pytest.param((33, 70), 40, {"group_size": 10, "block_size": 7}, marks=pytest.mark.slow),
        pytest.param((33,), None, {"head_dim": 128}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.slow)]
)
def test_kernel_equals_dense_attention(
    backend: AttentionBackend,
    lengths: tuple[int, ...],
    window: int | None,
    shape: dict[str, int],
    dtype: torch.dtype,
) -> None:
    """lengths: of what was computed before; NaN is in all of the cache that no request owns."""
    shape = {"num_kv_heads": 1, "head_dim": 64, **shape}
    batch = make_batch([(length, 1) for length in lengths], dtype=dtype, **shape)
    output = batch.run(backend, window)
    assert_close(output, dense_attention(batch, window), [v for _, v in batch.histories])


def dense_decode(
    output: torch.Tensor, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, plan: Any
) -> None:
    """What the kernels are for, by the rung of torch."""
    steps = [(int(n) - 1, 1) for n in plan.seq_lens]
    assert plan.num_spans * sys.modules[BACKEND].SPLIT >= max(n + 1 for n, _ in steps)
    requests = [
        PackedRequest(table, *step)
        for table, step in zip(plan.block_tables.tolist(), steps, strict=True)
    ]
    torch_rung = TorchBackend()
    metadata = AttentionMetadata.pack(requests, keys.shape[1], query.device)
    attended = torch_rung.attend(query, keys, values, torch_rung.plan(metadata, plan.spec))
    output.copy_(attended)
    num_decoded.append(len(requests))


num_decoded: list[int] = []


def test_the_engine_sends_decodes_alone_to_the_kernel(
    checkpoint: Path, backend: AttentionBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules[BACKEND]
    monkeypatch.setattr(module, "HEAD_DIMS", (8,))
    monkeypatch.setattr(module, "paged_decode", dense_decode)
    # chunks are the Triton rung's, which the interpreter runs slowly
    for name in ("plan", "attend", "rotate_and_write_kv"):
        monkeypatch.setattr(module.TritonBackend, name, getattr(TorchBackend, name))
    monkeypatch.setattr(module.TritonBackend, "_scratch", [], raising=False)
    monkeypatch.setattr(module.TritonBackend, "_kind", None, raising=False)
    num_decoded.clear()
    assert answers(checkpoint, "cutedsl") == answers(checkpoint, "torch")
    assert len(num_decoded) > 3


def test_a_step_with_a_chunk_goes_to_the_triton_rung(backend: AttentionBackend) -> None:
    decodes, mixed = (make_batch([(5, 1), (20, n)]).metadata for n in (1, 2))
    spec = make_batch([(5, 1)]).spec
    assert type(backend.plan(mixed, spec)).__name__ == "TilePlan"
    plan = backend.plan(decodes, spec)
    assert (type(plan).__name__, plan.num_spans) == ("DecodePlan", 2)
