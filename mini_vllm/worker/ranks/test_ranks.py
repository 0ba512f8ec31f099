"""A model in several processes gives what it gives in one."""

from collections.abc import Iterator
from typing import Any

import pytest

from mini_vllm import LLM, SamplingParams
from mini_vllm.params import StructuredOutputs

SIZES: dict[str, Any] = {
    "dtype": "float32",
    "device": "cpu",
    "block_size": 4,
    "num_kv_blocks": 24,
    "max_num_batched_tokens": 16,
    "max_model_len": 64,
}
GREEDY = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)
PARAMS = [
    GREEDY,
    SamplingParams(temperature=0, max_tokens=20, ignore_eos=True),
    SamplingParams(seed=5, max_tokens=20, ignore_eos=True),
    SamplingParams(seed=1, n=2, max_tokens=12, ignore_eos=True, logprobs=3),
    SamplingParams(temperature=0, frequency_penalty=0.5, max_tokens=24, ignore_eos=True),
    SamplingParams(temperature=0, max_tokens=8, prompt_logprobs=2),
    SamplingParams(temperature=0, structured=StructuredOutputs(choice=("yes", "no"))),
]
PROMPTS = [list(range(20 + 3 * i, 32 + 2 * i)) for i in range(len(PARAMS))]


@pytest.fixture(scope="module")
def two() -> Iterator[LLM]:
    llm = LLM("tiny", tensor_parallel_size=2, **SIZES)
    yield llm
    llm.engine.shutdown()


def answers(llm: LLM, prompts: Any = PROMPTS, params: Any = PARAMS) -> list[Any]:
    """Token ids, and log-probabilities to three decimals."""
    return [
        (
            [choice.token_ids for choice in output.outputs],
            [rounded(choice.logprobs) for choice in output.outputs],
            rounded(output.prompt_logprobs),
        )
        for output in llm.generate(prompts, params)
    ]


def rounded(places: Any) -> Any:
    return places and [
        each and {token_id: round(one.logprob, 3) for token_id, one in each.items()}
        for each in places
    ]


def test_two_processes_give_what_one_gives(two: LLM) -> None:
    """Chunks, preemption, hits in the prefix cache, masks, penalties, log-probabilities."""
    one = LLM("tiny", **SIZES)
    # alone, requests that are greedy tell pairs; among the rest, they gather
    for llm in (one, two):
        assert answers(llm, PROMPTS[:2], GREEDY)[0][0][0]
    assert answers(two) == answers(one)
    assert answers(two, PROMPTS, GREEDY) == answers(one, PROMPTS, GREEDY)
    assert two.engine.scheduler.preempted_prefix_cache_stats.requests > 0
    # a block has half of the heads
    sizes = [llm.engine.kv_cache_plan.bytes_per_block for llm in (two, one)]
    assert sizes[0] * 2 == sizes[1]
