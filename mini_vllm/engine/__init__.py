"""The loop and what stands around it, in the order of reading.

core.py          schedule() -> execute() -> update_from_output()
runner_view.py   what the runner has of each request, so that a step brings only what is new
llm_engine.py    text on both sides of the core
llm.py           LLM: a call that waits for its requests
beam_search.py   the beams of LLM.beam_search, which is a client of generate()
interrupts.py    Ctrl-C, which arrives between two steps of such a call
recovery.py      a core that tries a step again when the device has failed, for a server
one_by_one.py    how that core finds the request at fault: the step again, one request at a time
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mini_vllm.engine.llm_engine import LLMEngine as LLMEngine


def __getattr__(name: str) -> Any:
    """The core needs the standard library alone, so LLMEngine is imported when it is asked for."""
    if name != "LLMEngine":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mini_vllm.engine.llm_engine import LLMEngine

    return LLMEngine
