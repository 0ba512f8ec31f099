"""mini_vllm: a small, readable LLM inference engine.

Its files and folders are rings, from within. docs/where-things-are.md says what each of them does.

    heart     request step block_hash block_pool kv_cache scheduler_interface scheduler
              engine.core engine.runner_view
    step      engine worker light attention native parallel models
    text      config params errors frontend
    features  policies offload spec_decode structured
    product   serving cli observe load simulator

The names below are loaded when they are first used: importing the heart needs nothing but the
standard library.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mini_vllm.config import EngineConfig as EngineConfig
    from mini_vllm.engine.beam_search import BeamSearchParams as BeamSearchParams
    from mini_vllm.engine.llm import LLM as LLM
    from mini_vllm.engine.llm_engine import LLMEngine as LLMEngine
    from mini_vllm.frontend.output_processor import CompletionOutput as CompletionOutput
    from mini_vllm.frontend.output_processor import RequestOutput as RequestOutput
    from mini_vllm.params import SamplingParams as SamplingParams

__version__ = "0.1.0"

_HOMES = {
    "LLM": "engine.llm",
    "LLMEngine": "engine.llm_engine",
    "EngineConfig": "config",
    "SamplingParams": "params",
    "BeamSearchParams": "engine.beam_search",
    "RequestOutput": "frontend.output_processor",
    "CompletionOutput": "frontend.output_processor",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mini_vllm' has no attribute {name!r}")
    return getattr(import_module(f"mini_vllm.{_HOMES[name]}"), name)
