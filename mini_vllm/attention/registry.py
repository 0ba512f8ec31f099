"""Which rung of the attention ladder runs here: by name, or the fastest for a device."""

import os
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pkgutil import resolve_name

import torch

from mini_vllm.attention import c_backend
from mini_vllm.attention.backend import AttentionBackend
from mini_vllm.errors import InvalidParameterError, shown

# By name: module and class, imported when it is chosen. From the first rung to the fastest.
BACKENDS: Mapping[str, str] = {
    "reference": "mini_vllm.attention.reference:ReferenceBackend",
    "torch": "mini_vllm.attention.torch_backend:TorchBackend",
    "c": "mini_vllm.attention.c_backend:CBackend",
    "triton-simple": "mini_vllm.attention.triton_simple:SimpleTritonBackend",
    "triton": "mini_vllm.attention.triton_backend:TritonBackend",
}


def fastest(device: torch.device) -> str:
    """The name of the fastest back end for a device; why_not() says whether it runs here."""
    return "triton" if device.type == "cuda" else "c"


def get_backend(
    name: str,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    *,
    batch_invariant: bool = False,
) -> AttentionBackend:
    """The back end of that name; "auto" takes the fastest for the device, or "torch" where that one
    cannot run.

    dtype: of the queries and the cache that come first; kernels in C are built for it now, for
    another when it comes. batch_invariant: a query has the same bits in every batch and chunk.

    The Triton rungs run on a CPU as well, in Triton's interpreter, if TRITON_INTERPRET=1 is in the
    environment when the process starts; MINI_VLLM_DEBUG=1 there turns on the back end's debug
    checks. Errors: InvalidParameterError for an unknown name, and for one that cannot run here.
    """
    if name == "auto":
        name = "torch" if why_not(fastest(device), device, dtype) else fastest(device)
    if name not in BACKENDS:
        raise InvalidParameterError(
            f"attention backend {shown(name)} is not one of: auto, {', '.join(BACKENDS)}"
        )
    if reason := why_not(name, device, dtype):
        raise InvalidParameterError(
            f"attention backend {shown(name)} cannot run on {device}: {reason}"
        )
    backend: AttentionBackend = resolve_name(BACKENDS[name])()
    backend.debug = is_set("MINI_VLLM_DEBUG")
    backend.batch_invariant = batch_invariant
    return backend


def why_not(name: str, device: torch.device, dtype: torch.dtype = torch.float32) -> str | None:
    """What keeps the back end of that name from running on the device; None when nothing does.

    For "c" the kernels of the dtype are built if they have not been: a second or two, once for each
    machine.
    """
    if name == "c":
        return c_backend.why_not(device, dtype)
    if not name.startswith("triton"):
        return None
    if find_spec("triton") is None:
        return "Triton is not installed (it comes with the extra 'engine', on Linux)"
    if not is_set("TRITON_INTERPRET"):
        if device.type == "cuda":
            return None
        return (
            "it needs a GPU; TRITON_INTERPRET=1 in the environment interprets its kernels instead"
        )
    triton, numpy = (
        tuple(map(int, version(package).split(".")[:2])) for package in ("triton", "numpy")
    )
    if triton < (3, 7) and numpy >= (2, 4):
        return (
            f"the interpreter of Triton {version('triton')} needs a NumPy below 2.4, "
            f"{version('numpy')} is installed"
        )
    return None


def is_set(variable: str) -> bool:
    """Whether a variable of the environment says yes; the spellings are Triton's."""
    return os.environ.get(variable, "0").lower() in ("1", "true", "on", "yes", "y")
