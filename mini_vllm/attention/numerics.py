"""Arithmetic that the Triton kernels share, and what Triton's interpreter needs to compute as a GPU
does.

With TRITON_INTERPRET=1 in the environment, set before this module is imported, Triton runs kernels
in NumPy, one program after the other, on a machine without a GPU. NumPy has no bfloat16, so the
interpreter multiplies such numbers as if they were integers, and cuts float32 off where a GPU
rounds. The helpers here go around that in the interpreter, and cost nothing in a compiled kernel.
"""

from functools import partial
from typing import Any

import triton
import triton.language as tl

from mini_vllm.native import c_compiler


@triton.jit
def _probe():
    pass


INTERPRETED = tl.constexpr(not isinstance(_probe, triton.JITFunction))
# exp(x) = exp2(x * LOG2E), and exp2 is what a GPU has an instruction for
LOG2E = tl.constexpr(1.4426950408889634)


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **options: Any) -> None:
    """kernel[grid](...), which a recording on a CPU sees, too."""
    c_compiler.launch.get()(partial(kernel[grid], *arguments, **options))


@triton.jit
def round_to(x, dtype: tl.constexpr):
    """x, float32, as dtype: to the nearest, ties to even."""
    if INTERPRETED and dtype == tl.bfloat16:
        bits = x.to(tl.uint32, bitcast=True)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        x = bits.to(tl.float32, bitcast=True)
    return x.to(dtype)


@triton.jit
def matmul(a, b):
    """a [M, K] times b [K, N] in the dtype that both have, summed in float32: [M, N] float32.

    On a GPU M and K must be at least 16, N at least 8. float32 is multiplied as float32, not cut to
    TensorFloat-32.
    """
    if INTERPRETED:
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, input_precision="ieee")
