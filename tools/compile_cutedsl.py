"""Compile the decode kernel of the rung cutedsl for a GPU that need not be here, and say what it takes.

    python tools/compile_cutedsl.py                     a line for each shape of layer, for sm_90a (a minute)
    CUTE_DSL_ARCH=sm_100a python tools/compile_cutedsl.py

The package nvidia-cutlass-dsl compiles; cuobjdump, which comes with Triton, reads how many registers a thread takes and
how many bytes of stack it has, where spilled registers go. Exit status 1 if a kernel has a stack.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("CUTE_DSL_ARCH", "sm_90a")
os.environ.setdefault("CUTE_DSL_KEEP", "cubin")
os.environ.setdefault("CUTE_DSL_DUMP_DIR", tempfile.mkdtemp())

import torch  # noqa: E402
import triton  # noqa: E402

from mini_vllm.attention.libraries.cutedsl_backend import Shape, compiled  # noqa: E402

SHAPES = (
    Shape(num_kv_heads=8, group_size=2, head_dim=128, block_size=16, window=0),  # Qwen3-0.6B
    Shape(num_kv_heads=8, group_size=4, head_dim=128, block_size=16, window=0),  # Llama-3.1-8B
    Shape(num_kv_heads=8, group_size=8, head_dim=128, block_size=16, window=0),  # Qwen3-32B
    Shape(num_kv_heads=4, group_size=7, head_dim=64, block_size=32, window=4096),
    Shape(num_kv_heads=1, group_size=16, head_dim=256, block_size=16, window=0),
)
CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
USAGE = re.compile(r"Function \S*?(decode|merge)_kernel\S*:\s*REG:(\d+) STACK:(\d+)")


def usage(cubin: bytes) -> Iterator[tuple[str, int, int]]:
    """Of each kernel in it: name, registers of a thread, bytes of stack."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(CUOBJDUMP), "--dump-resource-usage", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for name, registers, stack in USAGE.findall(text):
        yield name, int(registers), int(stack)


def main() -> int:
    status = 0
    for shape in SHAPES:
        artifacts = compiled(shape, torch.bfloat16).artifacts
        for name, registers, stack in sorted(usage(artifacts.CUBIN)):
            status |= int(stack > 0)
            print(f"{os.environ['CUTE_DSL_ARCH']} {shape}: {name} {registers} registers, {stack} bytes of stack")
    return status


if __name__ == "__main__":
    sys.exit(main())
