"""native/norm.c, built at first use and called by ctypes."""

import ctypes
from ctypes import c_float, c_int64, c_void_p
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from mini_vllm.native import SOURCES
from mini_vllm.native.c_compiler import find_library, launch

SOURCE = SOURCES / "norm.c"
DTYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}


class NormStruct(ctypes.Structure):
    """Norm in norm.c."""

    _fields_: ClassVar = [
        *((name, c_void_p) for name in ("output", "residual", "x", "weight")),
        *((name, c_int64) for name in ("num_tokens", "rows", "size", "x_stride", "num_threads")),
        ("eps", c_float),
    ]


@cache
def find_kernel(dtype: torch.dtype) -> Any:
    """The function for this dtype; None where there is none, or no compiler."""
    library = find_library(SOURCE)
    return (
        None
        if isinstance(library, str) or dtype not in DTYPES
        else library[f"rms_norm_{DTYPES[dtype]}"]
    )


def takes(x: Tensor) -> bool:
    """Whether the kernel can run on x: on a CPU that has a compiler, all numbers of a token side by
    side.
    """
    if torch.compiler.is_compiling() or x.device.type != "cpu" or find_kernel(x.dtype) is None:
        return False
    return (
        x.ndim in (2, 3)
        and x.stride(-1) == 1
        and x.stride(-2) == (x.shape[-1] if x.ndim == 3 else x.stride(0))
    )


def rms_norm(x: Tensor, weight: Tensor, eps: float, residual: Tensor | None = None) -> Tensor:
    """The norm of x [T, size] or [T, heads, size], or of residual + x; residual, contiguous,
    becomes this sum.
    """
    output = torch.empty(x.shape, dtype=x.dtype)
    pointers = (
        None if tensor is None else tensor.data_ptr() for tensor in (output, residual, x, weight)
    )
    rows = x.shape[1] if x.ndim == 3 else 1
    call = NormStruct(
        *pointers, len(x), rows, x.shape[-1], x.stride(0), torch.get_num_threads(), eps
    )
    launch.get()(find_kernel(x.dtype), call)
    return output
