"""Verify and roll back: the same tokens, and the same logits, whatever else is in the batch."""

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mini_vllm import LLM, SamplingParams
from mini_vllm.errors import InvalidParameterError
from mini_vllm.step import Chunk, StepOutput
from mini_vllm.worker.products.fixed_shape import FixedShape
from mini_vllm.worker.products.test_batch_invariant import (
    ALONE,
    FEW,
    NO_C,
    PROMPTS,
    WAYS,
    answers,
    experts_checkpoint,
)
from mini_vllm.worker.verified import executor
from mini_vllm.worker.verified.executor import TwoWayRunner

__all__ = ["experts_checkpoint"]  # a fixture
pytestmark = pytest.mark.skipif(bool(NO_C), reason=f"no rung c: {NO_C}")
VERIFIED: dict[str, Any] = {"speculative": "draft_model", "draft_model": "self", "dtype": "float32"}
MY_WAYS = {name: options for name, options in WAYS.items() if name != "drafts"}
MY_WAYS["ahead"] = {"num_kv_blocks": 200, "async_scheduling": True}


def test_a_request_has_the_same_bits_in_every_batch(checkpoint: Path) -> None:
    wanted = answers(checkpoint, FEW, **VERIFIED, **ALONE)
    assert answers(checkpoint, FEW, **VERIFIED, **WAYS["together"]) == wanted


def test_experts_have_the_same_bits_in_every_batch(experts_checkpoint: Path) -> None:
    wanted = answers(experts_checkpoint, FEW, **VERIFIED, **ALONE)
    assert answers(experts_checkpoint, FEW, **VERIFIED, **WAYS["chunks of 7"]) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_request_has_the_same_bits_in_every_way(checkpoint: Path, dtype: str) -> None:
    options = {**VERIFIED, "dtype": dtype}
    wanted = answers(checkpoint, **options, **ALONE)
    for way, more in MY_WAYS.items():
        assert answers(checkpoint, **options, **more) == wanted, way
    more = {**WAYS["together"], "num_speculative_tokens": 9}
    assert answers(checkpoint, **options, **more) == wanted


@pytest.mark.slow
def test_without_the_fixed_shape_the_bits_differ(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "FixedShape", nullcontext)
    wanted = answers(checkpoint, **VERIFIED, **ALONE)
    assert answers(checkpoint, **VERIFIED, **WAYS["together"]) != wanted


def test_a_draft_that_is_wrong_goes_back(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one whose bits differed so much that another token came of it."""

    def run() -> tuple[list[int], int]:
        llm = LLM(str(checkpoint), device="cpu", num_kv_blocks=40, **VERIFIED)
        params = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)
        output = llm.generate([PROMPTS[2]], params)[0].outputs[0]
        stats = llm.engine.core.scheduler.speculation_stats
        return list(output.token_ids), stats.num_draft_tokens - stats.num_accepted_tokens

    wanted = run()
    decode = TwoWayRunner.decode_freely

    def spoil(runner: TwoWayRunner, chunks: Iterable[Chunk]) -> StepOutput:
        output = decode(runner, chunks)
        changed = {
            name: [token._replace(token_id=(token.token_id + token.token_id % 2) % 96)]
            for name, (token,) in output.tokens.items()
        }
        return replace(output, tokens=changed)

    monkeypatch.setattr(TwoWayRunner, "decode_freely", spoil)
    spoilt = run()
    assert spoilt[0] == wanted[0]
    assert (wanted[1], spoilt[1] > 0) == (0, True)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"quantization": "int8"}, marks=pytest.mark.slow),
        {"attention_backend": "torch"},
        {"cudagraph_mode": "full"},
        {"batch_invariant": True},
        pytest.param({"tensor_parallel_size": 2}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_what_has_no_fixed_shape_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError, match=r"draft_model|batch_invariant"):
        LLM("tiny", device="cpu", num_kv_blocks=40, **(VERIFIED | options))


def test_a_row_of_a_product_has_the_same_bits_among_any_rows() -> None:
    weight, x = torch.randn(24, 40), torch.randn(41, 40)
    with FixedShape() as shape:
        whole = F.linear(x, weight)
        for first, end in ((0, 1), (7, 30), (40, 41)):
            assert torch.equal(F.linear(x[first:end], weight), whole[first:end])
    assert {*shape.found.values()} <= {*FixedShape.pieces}
    assert torch.allclose(whole, F.linear(x, weight), atol=1e-5)


def test_a_product_that_depends_on_the_place_is_refused() -> None:
    def run(rows: Tensor) -> Tensor:
        return rows + torch.arange(len(rows))[:, None]

    with pytest.raises(InvalidParameterError, match=r"product of 8 numbers .* other bits"):
        FixedShape().measure(run, torch.zeros(1, 8))
