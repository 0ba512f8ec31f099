"""Elementwise work between the matrix products: torch's operators, or one kernel, in Triton on a
GPU and in C on a CPU.

A GPU spends more on launching small kernels, and on writing and rereading what they pass on, than
on their arithmetic. So what lies between two matrix products is fused into one kernel there:
residual add with RMSNorm, SiLU with the product. On a CPU the norm is, which took 8 % of a decode
step. Where Triton or a compiler is missing the torch form runs; all compute the same up to float32
rounding of sums. (Rotation is fused with the cache write, see attention/write_kv.py.) vLLM:
fused_add_rms_norm, silu_and_mul.
"""

from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch import Tensor

from mini_vllm.models.layers import norm_c

HAS_TRITON = find_spec("triton") is not None


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMSNorm (Zhang and Sennrich 2019) over the last dimension of x [..., size], weight [size]:
    same shape and dtype.

    Normalised in float32, rounded to x's dtype, then multiplied by the weight, as transformers does
    and the reference results of checkpoints were made.
    """
    if on_gpu(x):
        from mini_vllm.models.layers import fused_triton

        return fused_triton.rms_norm(x, weight, eps)
    return norm_c.rms_norm(x, weight, eps) if norm_c.takes(x) else rms_norm_torch(x, weight, eps)


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """(rms_norm(residual + x), residual + x) for x and residual [T, size], the sum rounded to their
    dtype.

    Either argument's memory may be reused for a result.
    """
    if on_gpu(x):
        from mini_vllm.models.layers import fused_triton

        return fused_triton.add_rms_norm(x, residual, weight, eps)
    if norm_c.takes(x) and residual.is_contiguous():
        return norm_c.rms_norm(x, weight, eps, residual), residual
    residual = residual + x
    return rms_norm_torch(residual, weight, eps), residual


def silu_mul(gate_up: Tensor) -> Tensor:
    """silu(gate) * up for gate_up [T, 2 * size], gate first: [T, size] (Shazeer 2020: SwiGLU)."""
    if on_gpu(gate_up):
        from mini_vllm.models.layers import fused_triton

        return fused_triton.silu_mul(gate_up)
    return silu_mul_torch(gate_up)


def rms_norm_torch(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """The torch form: in place on one float32 copy, since on a CPU memory is what a norm costs."""
    wide = x.to(torch.float32, copy=True)
    mean_square = torch.linalg.vector_norm(wide, dim=-1, keepdim=True).square_().div_(x.shape[-1])
    return wide.mul_(mean_square.add_(eps).rsqrt_()).to(x.dtype).mul_(weight)


def silu_mul_torch(gate_up: Tensor) -> Tensor:
    """The torch form."""
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate).mul_(up)


def on_gpu(x: Tensor) -> bool:
    """Whether the fused kernels can run on x; a compiler fuses the torch forms itself."""
    return HAS_TRITON and x.device.type == "cuda" and not torch.compiler.is_compiling()
