"""native/int8_linear.c, built at first use and called by ctypes."""

import ctypes
from ctypes import c_int64, c_void_p
from typing import ClassVar

import torch
from torch import Tensor

from mini_vllm.native import SOURCES
from mini_vllm.native.c_compiler import find_library, launch

SOURCE = SOURCES / "int8_linear.c"
DTYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}
TILE = 4  # channels that a thread computes together
STEP = 64  # inputs that int8_linear.c takes at a time, with the widest vectors


class LinearStruct(ctypes.Structure):
    """Linear in int8_linear.c."""

    _fields_: ClassVar = [
        *((name, c_void_p) for name in ("output", "x", "values", "scale", "inputs", "weights")),
        *((name, c_int64) for name in ("num_rows", "size_in", "size_out", "num_threads")),
    ]


def load_kernels() -> ctypes.CDLL | str:
    """The library, or why there is none."""
    return find_library(SOURCE)


def why_slow(device: torch.device) -> str | None:
    """What keeps the kernel from serving int8 weights on the device; builds the library if there is
    none yet.
    """
    if device.type != "cpu":
        return "no kernel reads them there: they save memory and no time"
    kernels = load_kernels()
    return kernels if isinstance(kernels, str) else None


def int8_linear(kernels: ctypes.CDLL, x: Tensor, values: Tensor, scale: Tensor) -> Tensor:
    """x [T, K] times values [N, K] int8, transposed, and scale [N] float32: [T, N] in the dtype of
    x.

    All on the CPU; K is a multiple of STEP.
    """
    x, (size_out, size_in), num_threads = x.contiguous(), values.shape, torch.get_num_threads()
    output = torch.empty(len(x), size_out, dtype=x.dtype)
    inputs, weights = torch.empty(len(x), size_in), torch.empty(num_threads, TILE, size_in)
    pointers = (tensor.data_ptr() for tensor in (output, x, values, scale, inputs, weights))
    call = LinearStruct(*pointers, len(x), size_in, size_out, num_threads)
    launch.get()(kernels[f"int8_linear_{DTYPES[x.dtype]}"], call)
    return output
