"""mini-vllm doctor: what this machine can run, and whether the bundled model answers."""

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from mini_vllm.cli.common import busy, console, option
from mini_vllm.errors import how_to_install

QUESTION = "What is a KV block?"
EXPECTED = "A KV block is a fixed-size piece of the KV cache"
PACKAGES = {  # what the engine needs, and for what; triton is for GPUs alone
    "torch": "runs the model",
    "transformers": "reads configs and tokenizers",
    "safetensors": "reads weights",
    "triton": "compiles GPU kernels",
}
OK, ABSENT, FAULT = Text("ok", "green"), Text("-", "bright_black"), Text("FAULT", "bold red")

Finding = tuple[Text, str, str, str]  # verdict, what was looked at, what was found, what it means


def doctor(
    model: str | None = option(None, "Say whether this model fits here, without loading it."),
    tensor_parallel_size: int = option(1, "With --model: cut among so many processes."),
    enable_expert_parallel: bool = option(
        False, "And its experts are spread.", "--enable-expert-parallel"
    ),
) -> None:
    """Say what this machine can run, and test it.

    Exit status 1 if the bundled model does not answer here, 2 if no form of MODEL fits.
    """
    with busy("looking around"):
        findings = [
            *(
                examine()
                if model is None
                else examine_model(model, "auto", tensor_parallel_size, enable_expert_parallel)
            )
        ]
    table = Table.grid(padding=(0, 2))
    for finding in findings:
        table.add_row(*finding[:3], Text(finding[3], "bright_black"))
    console().print(table)
    if any(FAULT in each for each in findings):
        raise typer.Exit(1)


def examine() -> Iterator[Finding]:
    """Everything worth knowing, from the ground up."""
    yield (
        OK,
        "Python",
        f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "enough for the core: block pool, KV cache manager, scheduler",
    )
    for name, use in PACKAGES.items():
        found = installed(name)
        yield OK if found else ABSENT, name, found or "not installed", use
    if not installed("torch"):
        yield (
            ABSENT,
            "engine",
            "in NumPy",
            f"runs the bundled model alone. {how_to_install('engine')}",
        )
    else:
        yield from examine_engine()
    yield from examine_answer()


def examine_model(*options: Any) -> Iterator[Finding]:
    """The forms in which the weights may be held, and whether each fits. options: the first ones
    of EngineConfig.
    """
    from mini_vllm.config import EngineConfig
    from mini_vllm.worker.fit import forms_of

    for form in forms_of(EngineConfig(*options)):
        yield OK if form.fits else ABSENT, f"{form}", form.figures, ""


def examine_engine() -> Iterator[Finding]:
    """Devices, the attention back end, and what serves int8 weights."""
    import torch

    from mini_vllm.attention import BACKENDS, get_backend, why_not
    from mini_vllm.models.layers.int8_linear import why_slow
    from mini_vllm.worker.device import free_memory, pick_device

    device = pick_device("auto")
    if device.type == "cuda":
        yield (
            OK,
            "CUDA",
            f"{torch.version.cuda}, {torch.cuda.get_device_name(device)}",
            f"{free_memory(device) / (1 << 30):.1f} GiB are free",
        )
    else:
        yield ABSENT, "CUDA", "no device", "models run on the CPU"
    yield OK, "attention", get_backend("auto", device).name, f"what auto picks on {device}"
    for name in BACKENDS:
        reason = why_not(name, device)
        yield ABSENT if reason else OK, "", name, reason or f"can run on {device}"
    slow = why_slow(device)
    yield (
        ABSENT if slow else OK,
        "int8 weights",
        f"{'torch' if slow else 'c'}",
        slow or "what serves --quantization int8",
    )


def examine_answer() -> Iterator[Finding]:
    """Memory, and the self test."""
    from mini_vllm.worker.memory import available_host_memory

    yield OK, "main memory", f"{available_host_memory() / (1 << 30):.1f} GiB", "available"
    try:
        text = ask()
    except Exception as error:  # a doctor reports what is broken, whatever it is
        yield FAULT, "tiny model", "fails", f"{type(error).__name__}: {error}"
        return
    right = text.startswith(EXPECTED)
    yield (
        OK if right else FAULT,
        "tiny model",
        f"answers{'' if right else ' wrongly'}",
        f"{QUESTION} {text}",
    )


def ask() -> str:
    """The bundled model's answer to a question that it must know."""
    from mini_vllm import LLM, SamplingParams

    params = SamplingParams(temperature=0.0, max_tokens=80)
    conversation = [{"role": "user", "content": QUESTION}]
    return LLM("tiny").chat(conversation, params)[0].outputs[0].text.strip()


def installed(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
