"""One step ahead, recorded forwards and invariant sums, with policies, drafts, masks and
preemption: the same tokens.

The model is real, so every part takes part: the feed of tokens, recordings, masks and the sampler.
"""

import random
from collections import Counter
from typing import Any

import pytest

from mini_vllm import LLM, SamplingParams
from mini_vllm.attention import tiles, why_not
from mini_vllm.params import StructuredOutputs

torch = pytest.importorskip("torch", reason="a forward is recorded with torch")
NO_C = why_not("c", torch.device("cpu"))

SIZES: dict[str, Any] = {
    "dtype": "float32",
    "device": "cpu",
    "block_size": 4,
    "max_model_len": 80,
    "max_num_seqs": 5,
}
ROOMY = {"num_kv_blocks": 200, "max_num_batched_tokens": 64}
TIGHT = {"num_kv_blocks": 24, "max_num_batched_tokens": 24}
SWAP = {"preemption_mode": "swap", "num_cpu_blocks": 60}
STEPS: list[dict[str, Any]] = [
    *(
        {"cudagraph_mode": mode}
        for mode in ("piecewise", "full", "full_decode_only", "full_and_piecewise")
    ),
    *([{"batch_invariant": True}] if not NO_C else []),
    {},
]
POLICIES: list[dict[str, Any]] = [
    {},
    {"policy": "priority"},
    {"scheduler": "prefill_first"},
    {"scheduler": "nano_vllm", "max_num_batched_tokens": 80},
    {"scheduler": "warm_first"},
    {"long_prefill_token_threshold": 5},
]
DRAFTS: list[dict[str, Any]] = [
    {},
    {"speculative": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 1},
    {"speculative": "ngram", "num_speculative_tokens": 1, "prompt_lookup_match": "last"},
]
WORDS = StructuredOutputs(choice=["paged attention", "a KV block", "preemption"])
NUM_COMBINATIONS = 200
NUM_REQUESTS = 6


def draw(seed: int) -> dict[str, Any]:
    """The options of an engine; one step ahead in most of them."""
    rng = random.Random(seed)
    options = SIZES | TIGHT | rng.choice(STEPS) | rng.choice(POLICIES)
    drafts, swap = rng.choice(DRAFTS), rng.choice(({}, SWAP))
    if options.get("scheduler") != "nano_vllm":  # it has neither
        options |= drafts | swap
    return options | {
        "async_scheduling": rng.random() < 0.7,
        "structured_outputs_backend": "automaton",
    }


def workload(seed: int) -> list[tuple[list[int], SamplingParams, int]]:
    """Prompts of which some repeat and some begin alike; with a grammar or not, and a priority."""
    rng = random.Random(seed)
    shared = [rng.randrange(3, 2048) for _ in range(9)]
    requests = []
    for number in range(NUM_REQUESTS):
        prompt = shared * rng.choice((0, 1, 2)) + [
            rng.randrange(3, 2048) for _ in range(rng.randint(1, 20))
        ]
        params = SamplingParams(
            temperature=rng.choice((0, 0, 1)),
            seed=number,
            max_tokens=rng.randint(3, 16),
            ignore_eos=True,
            presence_penalty=rng.choice((0, 0, 0.5)),
            structured=WORDS if rng.random() < 0.25 else None,
        )
        requests.append((prompt, params, rng.randint(0, 2)))
    return requests


def run(seed: int, options: dict[str, Any], seen: Counter[str]) -> dict[str, Any]:
    """The tokens and the end of each request; requests come while earlier ones run."""
    engine = LLM("tiny", **options).engine
    rng, done = random.Random(seed), {}
    todo = [(str(number), *each) for number, each in enumerate(workload(seed))]
    for _ in range(3_000):
        while todo and (rng.random() < 0.4 or not engine.has_unfinished_requests()):
            request_id, prompt, params, priority = todo.pop(0)
            engine.add_request(request_id, prompt, params, priority=priority)
        if not engine.has_unfinished_requests():
            break
        for output in engine.step():
            if output.finished:
                done[output.request_id] = (
                    list(output.outputs[0].token_ids),
                    output.outputs[0].finish_reason,
                )
    seen["preempted"] += engine.scheduler.preempted_prefix_cache_stats.requests
    seen["replayed"] += getattr(engine.executor.runner, "num_replays", 0)
    seen["ahead"] += options.get("async_scheduling", False)
    seen["drafts"] += "speculative" in options
    seen["invariant"] += options.get("batch_invariant", False)
    return done


def block(first: int, number: int, mark: Any = ()) -> Any:
    return pytest.param(
        range(first, first + number), marks=mark, id=f"{first}-{first + number - 1}"
    )


@pytest.mark.parametrize(
    "seeds",
    [
        block(0, 10, pytest.mark.slow),
        *(block(first, 10, pytest.mark.nightly) for first in range(10, NUM_COMBINATIONS, 10)),
    ],
)
def test_any_combination_gives_the_tokens_of_plain_steps(
    seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contexts of these requests are cut into several spans, as those of long ones are."""
    monkeypatch.setattr(tiles, "SPLIT", 16)
    seen: Counter[str] = Counter()
    for seed in seeds:
        options = draw(seed)
        plain = run(seed, SIZES | ROOMY | {"structured_outputs_backend": "automaton"}, Counter())
        assert len(plain) == NUM_REQUESTS
        assert run(seed, options, seen) == plain, (seed, options)
    assert all(seen[name] for name in ("preempted", "replayed", "ahead", "drafts")), seen
