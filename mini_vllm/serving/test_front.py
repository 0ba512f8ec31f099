"""LLMEngine and AsyncEngine take requests by one front: the same requests, and the same refusals in
the same order.
"""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest

from mini_vllm.config import EngineConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.errors import MiniVllmError, PromptTooLongError
from mini_vllm.frontend.front import Front
from mini_vllm.frontend.input_processor import InputProcessor, ModelLimits
from mini_vllm.params import SamplingParams
from mini_vllm.request import Request
from mini_vllm.serving.conftest import LiveServer

LONG = SamplingParams(max_tokens=500, ignore_eos=True, n=2)
# What is wrong with a request, and how its refusal begins. Of two mistakes the first in the order
# of checks is told.
REFUSED: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "option": (3, 5, {"colour": 1}, "unknown request option 'colour'"),
    "request id": (3, 5, {}, "request_id"),
    "prompt": ("a", 5, {}, "prompt must be"),
    "empty": ("a", [], {}, "request 'a': the prompt has 0 tokens"),
    "too long": ("a", [10**6] * 10_000, {}, "This model's maximum context length is 2048 tokens."),
    "token": ("a", [10**6], {"priority": "x"}, "request 'a': prompt"),
    "priority": ("busy", [1], {"priority": "x"}, "request 'busy': priority"),
    "id in flight": ("busy", [1], {}, "request 'busy' is still in flight"),
    "id of a choice in flight": ("1_busy", [1], {}, "request '1_busy' is still in flight"),
}


@pytest.fixture(scope="module")
def engine() -> Iterator[LLMEngine]:
    engine = LLMEngine(EngineConfig("tiny", device="cpu", num_kv_blocks=200))
    engine.add_request("busy", [1, 2, 3], LONG)
    yield engine
    engine.shutdown()


@pytest.mark.parametrize("case", REFUSED)
def test_both_refuse_a_request_in_the_same_words(
    live: LiveServer, engine: LLMEngine, case: str
) -> None:
    request_id, prompt, options, words = REFUSED[case]

    async def refusal() -> MiniVllmError:
        async with aclosing(live.engine.generate("busy", [1, 2, 3], LONG)) as busy:
            await anext(busy)
            with pytest.raises(MiniVllmError) as refused:
                await anext(live.engine.generate(request_id, prompt, SamplingParams(), **options))
            return refused.value

    with pytest.raises(MiniVllmError) as refused:
        engine.add_request(request_id, prompt, SamplingParams(), **options)
    assert str(refused.value).startswith(words), refused.value
    theirs = asyncio.run_coroutine_threadsafe(refusal(), live.loop).result(60)
    assert (type(theirs), str(theirs)) == (type(refused.value), str(refused.value))
    live.assert_idle()


def test_a_request_that_is_not_admitted_leaves_no_record_and_takes_no_seed() -> None:
    config = EngineConfig("tiny", seed=5)
    inputs = InputProcessor(config, ModelLimits(64, 100, 100))

    def refuse(requests: list[Request]) -> None:
        assert [request.request_id for request in requests] == ["0_a", "1_a"]
        raise PromptTooLongError("no room")

    def seeds(front: Front, name: str) -> list[int | None]:
        added = front.add_request(name, [1, 2], SamplingParams(n=2), None, {})
        return [request.sampling_params.seed for request in added]

    front = Front(inputs, config.seed, lambda: 7.0)
    with pytest.raises(PromptTooLongError, match="no room"):
        front.add_request("a", [1, 2], SamplingParams(n=2), None, {}, refuse)
    assert not any(front.output_processor.has_request(name) for name in ("a", "0_a", "1_a"))
    fresh = Front(inputs, config.seed, lambda: 7.0)
    assert seeds(front, "a") == seeds(fresh, "b")
    assert seeds(front, "c") != seeds(front, "d")
    assert all(front.output_processor.has_request(name) for name in ("a", "0_a", "1_a"))
