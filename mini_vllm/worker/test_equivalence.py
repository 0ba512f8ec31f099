"""Law 1: scheduling changes time and memory, never a token.

Every combination of chunk size, token budget, block size, prefix caching, forced preemption, batch
mix, n, policy and aborts of other requests must give the tokens of generate_plainly(): a loop with
one request, no batch, no cache and no scheduler. float32 on a CPU, so the comparison is exact,
token for token.
"""

import itertools
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from mini_vllm.attention import Rotation, apply_rotary
from mini_vllm.config import EngineConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.models.checkpoint import load_hf_config
from mini_vllm.models.decoder import DecoderModel
from mini_vllm.models.registry import load_model
from mini_vllm.params import SamplingParams
from mini_vllm.step import SamplingRow
from mini_vllm.worker.sampler import Sampler

EOS = 7  # of the checkpoint fixture
NUM_COMBINATIONS = 520
NUM_SLICES = 26  # of 20: so that test workers share the load

# 13 tokens: ends inside a block of every size but 1
SHARED = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23]
PROMPTS = {
    "long": [*SHARED, *range(30, 53)],
    "shared": [*SHARED, 60, 61],
    "again": [*SHARED, *range(30, 53)],
    "short": [70],
    "block": list(range(40, 56)),  # exactly one block of 16, four of 4
    "other": list(range(80, 91)),
}
PARAMS = {
    "long": SamplingParams(temperature=0, max_tokens=9, ignore_eos=True),
    "shared": SamplingParams(temperature=1.0, seed=5, max_tokens=12, top_k=40, n=3),
    "again": SamplingParams(temperature=0.8, seed=-1, max_tokens=6, top_p=0.9),
    "short": SamplingParams(
        temperature=0, max_tokens=17, repetition_penalty=1.3, frequency_penalty=0.5
    ),
    "block": SamplingParams(
        temperature=1.2, seed=2**40, max_tokens=14, min_p=0.01, presence_penalty=0.7
    ),
    "other": SamplingParams(temperature=0, max_tokens=10, stop_token_ids=(3, 4, 5), n=2),
}


# --- the plain loop -------------------------------------------------------------------------------


class DenseAttention:
    """Causal attention of one request over the tokens at hand, scale head_dim**-0.5: no cache, no
    pages.
    """

    def __call__(
        self,
        layer_idx: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        rotation: Rotation,
    ) -> torch.Tensor:
        query, key = apply_rotary(query, rotation), apply_rotary(key, rotation)
        q, k, v = (x.transpose(0, 1)[None] for x in (query, key, value))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)[
            0
        ].transpose(0, 1)


@torch.inference_mode()
def generate_plainly(
    model: DecoderModel, prompt: list[int], params: SamplingParams, choice_index: int
) -> list[int]:
    """Compute the whole sequence again for every token."""
    tokens, output = list(prompt), []
    stop = {*params.stop_token_ids, *(() if params.ignore_eos else (EOS,))}
    while len(output) < params.max_tokens:
        hidden = model.forward(torch.tensor(tokens), torch.arange(len(tokens)), DenseAttention())  # type: ignore[arg-type]
        row = SamplingRow(params, params.seed or 0, choice_index, len(prompt))
        token = Sampler()(model.compute_logits(hidden[-1:]), [row], [len(tokens)], {0: tokens})[
            0
        ].token_id
        tokens.append(token)
        output.append(token)
        if token in stop:
            break
    return output


@pytest.fixture(scope="module")
def expected(checkpoint: Path) -> dict[str, list[list[int]]]:
    model = load_model(
        checkpoint, load_hf_config(checkpoint), dtype=torch.float32, device=torch.device("cpu")
    )
    return {
        name: [
            generate_plainly(model, prompt, PARAMS[name], index) for index in range(PARAMS[name].n)
        ]
        for name, prompt in PROMPTS.items()
    }


# --- the lattice ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Combination:
    """One point of the lattice; the names are EngineConfig's but for the last three."""

    max_num_batched_tokens: int
    block_size: int
    num_tokens_of_cache: int  # 48 holds one request and a bit: preemption is forced
    enable_prefix_caching: bool
    long_prefill_token_threshold: int
    max_num_seqs: int
    policy: str
    hash_function: str
    arrivals: str
    abort: str


AXES: dict[str, tuple[Any, ...]] = {
    "max_num_batched_tokens": (1, 3, 8, 17, 64),
    "block_size": (1, 2, 3, 5, 8, 16),
    "num_tokens_of_cache": (48, 64, 96, 512),
    "enable_prefix_caching": (True, True, False),
    "long_prefill_token_threshold": (0, 0, 5),
    "max_num_seqs": (1, 2, 5, 16),
    "policy": ("fcfs", "priority"),
    "hash_function": ("exact", "sha256"),
    "arrivals": ("together", "reversed", "staggered", "twice"),
    "abort": ("nobody", "other", "shared", "long"),
}


def combinations() -> list[Combination]:
    """A seeded sample of the full product; every pair of values of two axes occurs (asserted
    below).
    """
    rng = random.Random(0)
    drawn: dict[Combination, None] = {}
    while len(drawn) < NUM_COMBINATIONS:
        drawn[Combination(**{name: rng.choice(values) for name, values in AXES.items()})] = None
    return list(drawn)


def test_the_lattice_covers_every_pair_of_values() -> None:
    assert len(set(combinations())) == NUM_COMBINATIONS >= 500
    for a, b in itertools.combinations(AXES, 2):
        seen = {(getattr(c, a), getattr(c, b)) for c in combinations()}
        assert seen == set(itertools.product(AXES[a], AXES[b])), (a, b)


def run_combination(
    checkpoint: Path, c: Combination
) -> tuple[dict[str, list[list[int]]], LLMEngine, str]:
    """Token ids by request name and choice. Requests arrive as c.arrivals says; one is aborted on
    its way.
    """
    engine = LLMEngine(
        EngineConfig(
            str(checkpoint),
            dtype="float32",
            block_size=c.block_size,
            num_kv_blocks=-(-c.num_tokens_of_cache // c.block_size) + 1,
            max_num_batched_tokens=c.max_num_batched_tokens,
            enable_prefix_caching=c.enable_prefix_caching,
            long_prefill_token_threshold=c.long_prefill_token_threshold,
            max_num_seqs=c.max_num_seqs,
            policy=c.policy,
            hash_function=c.hash_function,
        )
    )
    # nothing that was not written may be read
    engine.executor.runner.kv_caches[0][0].fill_(torch.nan)
    engine.executor.runner.kv_caches[1][1].fill_(torch.nan)
    names = list(PROMPTS) if c.arrivals != "reversed" else list(reversed(PROMPTS))
    arrivals = [
        (3 * i if c.arrivals == "staggered" else 0, name, name) for i, name in enumerate(names)
    ]
    if c.arrivals == "twice":  # the same prompts later, over a warm cache
        arrivals += [(12 + i, f"{name}/2", name) for i, name in enumerate(names)]
    results: dict[str, list[list[int]]] = {}
    for step in itertools.count():
        for at, request_id, name in arrivals:
            if at == step:
                engine.add_request(request_id, PROMPTS[name], PARAMS[name], priority=len(name) % 3)
        if step == 5 and c.abort != "nobody":
            engine.abort(c.abort)
        if not engine.has_unfinished_requests() and step > max(at for at, *_ in arrivals):
            break
        for output in engine.step() if engine.has_unfinished_requests() else ():
            if output.finished:
                results[output.request_id] = [list(choice.token_ids) for choice in output.outputs]
    return results, engine, c.abort


SLICES = [
    pytest.param(part, marks=pytest.mark.nightly if part else pytest.mark.slow)
    for part in range(NUM_SLICES)
]


@pytest.mark.parametrize("part", SLICES)
def test_no_schedule_changes_a_token(
    checkpoint: Path, expected: dict[str, list[list[int]]], part: int
) -> None:
    num_preemptions = 0
    for c in combinations()[part::NUM_SLICES]:
        results, engine, aborted = run_combination(checkpoint, c)
        for request_id, choices in results.items():
            assert choices == expected[request_id.removesuffix("/2")], (request_id, c)
        missing = {*PROMPTS} - results.keys()
        assert missing <= {aborted}, c
        kv = engine.scheduler.kv_cache_manager
        assert kv.num_free_blocks == kv.num_usable_blocks, c
        num_preemptions += engine.scheduler.preempted_prefix_cache_stats.requests
    assert num_preemptions > 3  # the positive control: tight pools really preempt, in each slice
