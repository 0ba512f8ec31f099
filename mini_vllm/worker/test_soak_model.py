"""Hundreds of requests on a model, and among them some whose logits are no numbers, by their own
fault or the model's.

The model is the random one of conftest.py, in which one embedding is no number, so that prompts and
texts with that token are poison. Other requests have a penalty that overflows, or the logits of one
of their tokens are replaced. Now and then a layer raises. A request at fault ends with an error
that names it, and the token or the penalty. All other requests have the tokens of a clean run, and
so has whoever comes later with the same prefix.
"""

import math
import random
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from mini_vllm import LLM, SamplingParams
from mini_vllm.engine.recovery import RecoveringCore
from mini_vllm.engine.test_recovery import assert_idle, with_core
from mini_vllm.frontend.output_processor import CompletionOutput
from mini_vllm.test_core_properties import a_sixth

pytestmark = pytest.mark.usefixtures("silent_log")

NAN_TOKEN = 95
VALUES = (math.nan, math.inf, -math.inf)
VARIANTS: dict[str, dict[str, Any]] = {
    "v1": {},
    "swap": {"preemption_mode": "swap", "num_cpu_blocks": 30, "block_size": 1, "num_kv_blocks": 97},
    "prefill_first": {"scheduler": "prefill_first", "block_size": 2, "num_kv_blocks": 49},
    "sequence_group": {"scheduler": "sequence_group", "block_size": 16, "num_kv_blocks": 9},
    "warm_first": {"scheduler": "warm_first"},
}


@dataclass(frozen=True)
class Spec:
    """What a test asks for. Its seed is its name."""

    prompt: tuple[int, ...]
    params: SamplingParams
    bad_at: int | None = None  # of the first choice's tokens: the one whose logits are replaced
    value: float = math.nan

    @property
    def has_bad_penalty(self) -> bool:
        return self.params.repetition_penalty < 1e-30


def make_llm(checkpoint: Path, variant: str, **options: Any) -> LLM:
    sizes: dict[str, Any] = {
        "block_size": 4,
        "num_kv_blocks": 25,
        "max_num_batched_tokens": 16,
        "max_num_seqs": 6,
        "max_model_len": 60,
        "dtype": "float32",
    }
    llm = LLM(str(checkpoint), device="cpu", **(sizes | VARIANTS[variant] | options))
    return with_core(llm, RecoveringCore)


class Unchecked(SamplingParams):
    """What no caller may ask for, such as a penalty that overflows."""

    def __post_init__(self) -> None:
        pass


def random_specs(rng: random.Random, num_specs: int) -> list[Spec]:
    stems = [[rng.randrange(90) for _ in range(16)] for _ in range(3)]
    specs = []
    for seed in range(num_specs):
        prompt = rng.choice(stems)[: rng.choice((4, 8, 16))] + [
            rng.randrange(90) for _ in range(rng.randint(1, 5))
        ]
        options: dict[str, Any] = {
            "max_tokens": rng.randint(1, 12),
            "seed": seed,
            "n": rng.choice((1, 1, 2)),
        }
        options |= {"temperature": rng.choice((0, 1.0)), "ignore_eos": rng.random() < 0.7}
        options["logprobs"] = rng.choice((None, None, 2))
        options["repetition_penalty"] = rng.choice((1.0, 1.0, 1.0, 1.2))
        bad_at, kind = None, SamplingParams
        match rng.randrange(12):
            case 0:
                kind, options["n"], options["repetition_penalty"] = Unchecked, 1, 1e-40
            case 1:
                prompt.insert(rng.randint(0, len(prompt)), NAN_TOKEN)
            case 2 | 3:
                bad_at = rng.randrange(6)
        specs.append(Spec(tuple(prompt), kind(**options), bad_at, rng.choice(VALUES)))
    return specs


class Faults:
    """What is done to a model."""

    def __init__(self, llm: LLM, specs: list[Spec], rng: random.Random, seen: Counter[str]) -> None:
        self.specs, self.rng, self.seen = specs, rng, seen
        self.runner = llm.engine.executor.runner  # type: ignore[attr-defined]
        self.rate = 0.0
        model = self.runner.model
        self.sample, self.runner._sample = self.runner._sample, self.replace_logits
        for layer in model.layers:
            layer.mlp.forward = self.raising(layer.mlp.forward)

    def raising(self, forward: Any) -> Any:
        def raise_or_run(*args: Any) -> Any:
            if self.rng.random() < self.rate:
                self.seen["layer raised"] += 1
                raise RuntimeError("a layer has failed")
            return forward(*args)

        return raise_or_run

    def replace_logits(self, step: Any, packed: Any, logits: torch.Tensor) -> Any:
        for i, (request_id, position) in enumerate(
            zip(step.sample_req_ids, packed.sample_positions, strict=True)
        ):
            row = self.runner.batch.sampling_rows[request_id]
            spec = self.specs[row.seed]
            if row.choice_index == 0 and spec.bad_at == position - len(spec.prompt):
                self.seen[f"logits {spec.value}"] += 1
                logits[i, 0 if spec.value == math.inf else slice(None)] = spec.value
        return self.sample(step, packed, logits)


def first_bad(spec: Spec, choice: CompletionOutput) -> int | None:
    """Of a clean choice, the first token that cannot be sampled when the faults are there."""
    if NAN_TOKEN in spec.prompt:
        return 0
    bad = [i + 1 for i, token_id in enumerate(choice.token_ids[:-1]) if token_id == NAN_TOKEN]
    if choice.index == 0 and spec.bad_at is not None and spec.bad_at < len(choice.token_ids):
        bad.append(spec.bad_at)
    return min(bad, default=None)


def check(
    spec: Spec, clean: list[CompletionOutput], choices: list[CompletionOutput], seen: Counter[str]
) -> None:
    for wanted, choice in zip(clean, choices, strict=True):
        at = first_bad(spec, wanted)
        if spec.has_bad_penalty or at is not None:
            assert choice.finish_reason == "error", (spec, choice)
            name = f"{choice.index}_llm-" if spec.params.n > 1 else "llm-"
            assert str(choice.error).startswith(f"request '{name}")
            assert f": token {len(spec.prompt) + len(choice.token_ids)}: " in str(choice.error)
            if spec.has_bad_penalty and at is None:
                assert "repetition_penalty 1e-40" in str(choice.error)
                seen["penalty"] += 1
            if not spec.has_bad_penalty:
                assert choice.token_ids == wanted.token_ids[:at]
                seen["NaN in the prompt" if NAN_TOKEN in spec.prompt else "logits"] += 1
        else:
            assert (choice.token_ids, choice.finish_reason) == (
                wanted.token_ids,
                wanted.finish_reason,
            ), spec
            assert (choice.logprobs is None) == (spec.params.logprobs is None)
            seen["healthy"] += 1


def run(
    llm: LLM,
    faults: Faults,
    specs: list[Spec],
    clean: list[list[CompletionOutput]],
    seen: Counter[str],
) -> None:
    """generate() in batches, and a stream beside it."""
    rng = faults.rng
    order = list(range(len(specs)))
    rng.shuffle(order)
    faults.rate = 0.02
    while order:
        first, *batch = [order.pop() for _ in range(min(len(order), rng.randint(2, 7)))]
        stream = llm.stream(specs[first].prompt, specs[first].params)
        pieces = [next(stream)]
        outputs = (
            llm.generate([specs[i].prompt for i in batch], [specs[i].params for i in batch])
            if batch
            else []
        )
        pieces += stream
        for i, output in zip(batch, outputs, strict=True):
            check(specs[i], clean[i], output.outputs, seen)
        for wanted in clean[first]:
            deltas = [c for piece in pieces for c in piece.outputs if c.index == wanted.index]
            at = first_bad(specs[first], wanted)
            if at is None and not specs[first].has_bad_penalty:
                assert [
                    token_id for delta in deltas for token_id in delta.token_ids
                ] == wanted.token_ids
            else:
                assert deltas[-1].finish_reason == "error"
        assert_idle(llm.engine)
    faults.rate = 0.0


def soak(checkpoint: Path, variant: str, num_specs: int, seed: int) -> Counter[str]:
    rng, seen = random.Random(seed), Counter[str]()
    specs = random_specs(rng, num_specs)
    harmless = [
        replace(s.params, repetition_penalty=max(s.params.repetition_penalty, 1.0)) for s in specs
    ]
    clean = [
        each.outputs
        for each in make_llm(checkpoint, variant).generate([s.prompt for s in specs], harmless)
    ]
    llm = make_llm(checkpoint, variant)
    faults = Faults(llm, specs, rng, seen)
    with torch.no_grad():
        faults.runner.model.embed_tokens.weight[NAN_TOKEN] = torch.nan
    run(llm, faults, specs, clean, seen)
    again = [i for i, s in enumerate(specs) if not s.has_bad_penalty and NAN_TOKEN not in s.prompt]
    outputs = llm.generate([specs[i].prompt for i in again], [specs[i].params for i in again])
    for i, output in zip(again, outputs, strict=True):
        check(specs[i], clean[i], output.outputs, seen)
    assert_idle(llm.engine)
    return seen


@pytest.mark.parametrize(
    "variant",
    [pytest.param(name, marks=() if name == "v1" else pytest.mark.nightly) for name in VARIANTS],
)
@pytest.mark.parametrize("num_specs", [24, pytest.param(a_sixth(300), marks=pytest.mark.slow)])
def test_requests_whose_logits_are_no_numbers_spoil_nobody(
    checkpoint: Path, variant: str, num_specs: int
) -> None:
    seen = soak(checkpoint, variant, num_specs, seed=1)
    assert seen["healthy"] > num_specs
    assert seen["logits"] > num_specs / 8
    if num_specs >= 100:
        kinds = [
            "penalty",
            "NaN in the prompt",
            "layer raised",
            *(f"logits {value}" for value in VALUES),
        ]
        assert not [kind for kind in kinds if seen[kind] < num_specs // 30]


@pytest.mark.parametrize("variant", ["v1", "sequence_group"])
@pytest.mark.slow
def test_bad_logits_in_bfloat16_end_their_own_choice_alone(checkpoint: Path, variant: str) -> None:
    """Which tokens there are depends on the batch there; who ends, and when, does not."""
    rng, seen = random.Random(2), Counter[str]()
    specs = [spec for spec in random_specs(rng, 40) if not spec.has_bad_penalty]
    for i, spec in enumerate(specs):
        params = replace(spec.params, seed=i, ignore_eos=True)
        specs[i] = replace(
            spec, params=params, bad_at=i % 5 if i % 2 else None, value=VALUES[i // 2 % 3]
        )
    llm = make_llm(checkpoint, variant, dtype="bfloat16")
    Faults(llm, specs, rng, seen).rate = 0.02
    outputs = llm.generate([spec.prompt for spec in specs], [spec.params for spec in specs])
    for spec, output in zip(specs, outputs, strict=True):
        for choice in output.outputs:
            is_bad = (
                choice.index == 0
                and spec.bad_at is not None
                and spec.bad_at < spec.params.max_tokens
            )
            assert choice.finish_reason == ("error" if is_bad else "length")
            assert len(choice.token_ids) == (spec.bad_at if is_bad else spec.params.max_tokens)
            assert choice.logprobs is None or len(choice.logprobs) == len(choice.token_ids)
    assert seen["layer raised"]
    assert all(seen[f"logits {value}"] for value in VALUES)
    assert_idle(llm.engine)
