"""What keeps a rung that stands on a package from running here: found without importing it."""

import os
from collections.abc import Collection, Iterable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import torch

from mini_vllm.attention.metadata import AttentionSpec
from mini_vllm.errors import InvalidParameterError

HALVES = (torch.float16, torch.bfloat16)
# By name: the module that it imports, and the package that has it.
PACKAGES = {
    "flashinfer": ("flashinfer", "flashinfer-python"),
    "cutedsl": ("nvidia_cutlass_dsl", "nvidia-cutlass-dsl"),
}


def why_not(name: str, device: torch.device, dtype: torch.dtype | None) -> str | None:
    """What keeps the rung of that name from running on the device; None when nothing does.

    dtype: of queries and cache; None if any will do.
    """
    if name.startswith("triton"):
        return why_not_triton(device)
    if name not in PACKAGES:
        return None
    if device.type != "cuda":
        return "it needs an NVIDIA GPU"
    module, package = PACKAGES[name]
    for needed, wheel in ((module, package), ("triton", "triton")):
        if find_spec(needed) is None:
            return f"the package {wheel} is not installed (pip install {wheel})"
    if name == "flashinfer" and not has_kernels():
        return (
            "FlashInfer compiles its kernels at first use, which needs nvcc and ninja; install "
            "them, or the package flashinfer-jit-cache"
        )
    if dtype not in (None, *HALVES):
        return f"it computes in float16 or bfloat16, not in {dtype}"
    return None


def has_kernels() -> bool:
    """Whether FlashInfer has its kernels, or can compile them. vLLM: has_flashinfer in
    vllm/utils/flashinfer.py.
    """
    if find_spec("flashinfer_jit_cache"):
        return True
    toolkit = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    nvcc = which("nvcc") or (Path(toolkit) / "bin" / "nvcc").exists()
    return bool(nvcc and which("ninja"))


def why_not_triton(device: torch.device) -> str | None:
    """On a CPU the interpreter stands in, if it is told to."""
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


def refuse_specs(name: str, specs: Iterable[AttentionSpec], head_dims: Collection[int]) -> None:
    """Errors: InvalidParameterError for a layer whose width of a head the rung of that name has no
    kernel for.
    """
    for spec in specs:
        if spec.head_dim not in head_dims:
            raise InvalidParameterError(
                f"attention backend {name!r} has kernels for head_dim "
                f"{', '.join(map(str, head_dims))}; the model's is {spec.head_dim}"
            )


def is_set(variable: str) -> bool:
    """Whether a variable of the environment says yes; the spellings are Triton's."""
    return os.environ.get(variable, "0").lower() in ("1", "true", "on", "yes", "y")
