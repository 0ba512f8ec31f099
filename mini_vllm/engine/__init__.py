"""The loop and what stands around it, in the order of reading.

core.py          schedule() -> execute() -> update_from_output()
runner_view.py   what the runner has of each request, so that a step brings only what is new
llm_engine.py    text on both sides of the core
llm.py           LLM: a call that waits for its requests
interrupts.py    Ctrl-C, which arrives between two steps of such a call
recovery.py      a core that tries a step again when the device has failed, for a server
one_by_one.py    how that core finds the request at fault: the step again, one request at a time
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mini_vllm.engine.core import EngineCore as EngineCore
    from mini_vllm.engine.llm import LLM as LLM
    from mini_vllm.engine.llm_engine import LLMEngine as LLMEngine
    from mini_vllm.engine.recovery import RecoveringCore as RecoveringCore

HOMES = {"EngineCore": "core", "LLM": "llm", "LLMEngine": "llm_engine", "RecoveringCore": "recovery"}


def __getattr__(name: str) -> Any:
    """The core needs the standard library alone; LLM and LLMEngine are imported when they are asked for."""
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
