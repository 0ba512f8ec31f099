"""Which rung of the attention ladder runs here: by name, or the fastest for a device."""

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import NamedTuple

import torch

from mini_vllm.attention import c_backend
from mini_vllm.attention.backend import AttentionBackend
from mini_vllm.attention.libraries import needs
from mini_vllm.errors import InvalidParameterError, shown

# By name: module and class, imported when it is chosen. From the first rung to the fastest.
BACKENDS: Mapping[str, str] = {
    "reference": "mini_vllm.attention.reference:ReferenceBackend",
    "torch": "mini_vllm.attention.torch_backend:TorchBackend",
    "c": "mini_vllm.attention.c_backend:CBackend",
    "triton-simple": "mini_vllm.attention.triton_simple:SimpleTritonBackend",
    "triton": "mini_vllm.attention.triton_backend:TritonBackend",
    "flashinfer": "mini_vllm.attention.libraries.flashinfer_backend:FlashInferBackend",
    "cutedsl": "mini_vllm.attention.libraries.cutedsl_backend:CuTeDSLBackend",
}


class Choice(NamedTuple):
    """A rung that "auto" may take on devices of a type; "" is any. has_run: a run on such a device
    is in benchmarks/results. Until then it is taken by its name only.
    """

    name: str
    device: str
    has_run: bool = True


# What "auto" tries, in this order: the first that can run here.
FALLBACK = (
    Choice("cutedsl", "cuda", has_run=False),
    Choice("flashinfer", "cuda", has_run=False),
    Choice("triton", "cuda"),
    Choice("c", "cpu"),
    Choice("torch", ""),
)


def candidates(device: torch.device) -> list[str]:
    """What "auto" tries on a device, the fastest first; why_not() says whether it runs here."""
    return [each.name for each in FALLBACK if each.has_run and device.type.startswith(each.device)]


def get_backend(
    name: str,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    *,
    batch_invariant: bool = False,
) -> AttentionBackend:
    """The back end of that name; "auto" takes the first of FALLBACK that can run here.

    dtype: of the queries and the cache that come first; kernels in C are built for it now, for
    another when it comes. batch_invariant: a query has the same bits in every batch and chunk.

    The Triton rungs run on a CPU as well, in Triton's interpreter, if TRITON_INTERPRET=1 is in the
    environment when the process starts; MINI_VLLM_DEBUG=1 there turns on the back end's debug
    checks. Errors: InvalidParameterError for an unknown name, and for one that cannot run here.
    """
    if name == "auto":
        name = next(each for each in candidates(device) if not why_not(each, device, dtype))
    if name not in BACKENDS:
        raise InvalidParameterError(
            f"attention backend {shown(name)} is not one of: auto, {', '.join(BACKENDS)}"
        )
    if reason := why_not(name, device, dtype):
        raise InvalidParameterError(
            f"attention backend {shown(name)} cannot run on {device}: {reason}"
        )
    backend: AttentionBackend = resolve_name(BACKENDS[name])()
    backend.debug = needs.is_set("MINI_VLLM_DEBUG")
    backend.batch_invariant = batch_invariant
    return backend


def why_not(name: str, device: torch.device, dtype: torch.dtype | None = None) -> str | None:
    """What keeps the back end of that name from running on the device; None when nothing does.

    dtype: None if any will do. For "c" the kernels of the dtype are built if they have not been: a
    second or two, once for each machine.
    """
    if name == "c":
        return c_backend.why_not(device, dtype or torch.float32)
    return needs.why_not(name, device, dtype)
