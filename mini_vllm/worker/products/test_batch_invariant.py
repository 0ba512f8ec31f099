"""A request has the same bits in every batch, in every chunk, and after whatever befell it."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mini_vllm import LLM, SamplingParams
from mini_vllm.attention import why_not
from mini_vllm.errors import InvalidParameterError
from mini_vllm.models.test_models import CASES, Case, write_checkpoint
from mini_vllm.worker.draft_model import DraftSampler
from mini_vllm.worker.products.batch_invariant import BatchInvariant
from mini_vllm.worker.sampler import Draw

NO_C = why_not("c", torch.device("cpu"))
pytestmark = pytest.mark.skipif(bool(NO_C), reason=f"no rung c: {NO_C}")
RNG = random.Random(7)
PROMPTS = [[RNG.randrange(8, 96) for _ in range(RNG.choice((1, 3, 20, 70)))] for _ in range(12)]
PROMPTS += [[*PROMPTS[0], 9], PROMPTS[3], PROMPTS[3][:17]]  # they find blocks of earlier ones
ALONE = {"max_num_seqs": 1, "enable_prefix_caching": False, "num_kv_blocks": 40}
WAYS: dict[str, dict[str, Any]] = {
    "together": {"num_kv_blocks": 200},
    "chunks of 1": {"num_kv_blocks": 200, "max_num_batched_tokens": 16, "max_num_seqs": 15},
    "chunks of 7": {"num_kv_blocks": 200, "long_prefill_token_threshold": 7},
    "chunks of 16": {"num_kv_blocks": 200, "long_prefill_token_threshold": 16},
    "preempted": {"num_kv_blocks": 16},
    "swapped": {"num_kv_blocks": 16, "preemption_mode": "swap", "num_cpu_blocks": 40},
    "drafts": {"num_kv_blocks": 200, "speculative": "ngram", "prompt_lookup_min": 1},
}


@pytest.fixture
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


def answers(checkpoint: Path | str, prompts: Any = PROMPTS, **options: Any) -> list[Any]:
    """Tokens, and how likely they and those of the prompt are, to the last bit."""
    llm = LLM(str(checkpoint), device="cpu", **options)
    has_hits = options.get("enable_prefix_caching", True)
    params = [
        SamplingParams(
            temperature=float(i % 2),
            max_tokens=12,
            seed=i,
            logprobs=3,
            ignore_eos=True,
            prompt_logprobs=None if has_hits and i % 3 else 2,
        )
        for i in range(len(prompts))
    ]
    outputs = llm.generate(prompts, params)
    return [(out.outputs[0].token_ids, out.outputs[0].logprobs) for out in outputs] + [
        out.prompt_logprobs for out in outputs[::3]
    ]


def case(*values: Any, is_slow: bool = True) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow if is_slow else ())


@pytest.mark.parametrize(
    ("threads", "dtype", "ways"),
    [
        case(1, "float32", ("together", "chunks of 7", "preempted"), is_slow=False),
        *(case(n, dtype, tuple(WAYS)) for n in (1, 2) for dtype in ("float32", "bfloat16")),
    ],
    indirect=["threads"],
)
def test_a_request_has_the_same_bits_in_every_batch(
    checkpoint: Path, threads: None, dtype: str, ways: tuple[str, ...]
) -> None:
    both = {"dtype": dtype, "batch_invariant": True}
    wanted = answers(checkpoint, **both, **ALONE)
    for way in ways:
        assert answers(checkpoint, **both, **WAYS[way]) == wanted, way


@pytest.fixture(
    scope="session", params=["qwen3-moe", pytest.param("gpt-oss", marks=pytest.mark.slow)]
)
def experts_checkpoint(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    path = tmp_path_factory.mktemp(request.param)
    write_experts(path, request.param)
    return path


def write_experts(path: Path, name: str) -> None:
    """Experts whose products torch can group, and chooses their sums by the rows of each."""
    sizes = {"hidden_size": 64, "intermediate_size": 64, "moe_intermediate_size": 64}
    case = CASES[name]
    write_checkpoint(path, Case(case.config_class, {**case.options, **sizes}))


FEW = [*PROMPTS[:4], PROMPTS[12]]


def test_experts_have_the_same_bits_in_every_batch(experts_checkpoint: Path) -> None:
    both = {"dtype": "float32", "batch_invariant": True}
    wanted = answers(experts_checkpoint, FEW, **both, **ALONE)
    assert answers(experts_checkpoint, FEW, **both, **WAYS["chunks of 7"]) == wanted


def test_experts_that_draft_have_the_same_bits_in_every_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a draft was drawn from decides whether it is taken."""
    write_checkpoint(tmp_path / "target", CASES["llama"])
    write_experts(tmp_path / "draft", "qwen3-moe")
    drawn: dict[tuple[int | None, int], list[float]] = {}
    draw = DraftSampler.draw

    def noted(sampler: DraftSampler, logits: Tensor, peaks: Tensor, how: Draw) -> Tensor:
        for row, position, each in zip(how.rows, how.positions, logits.tolist(), strict=True):
            drawn[row.params.seed, position] = each
        return draw(sampler, logits, peaks, how)

    monkeypatch.setattr(DraftSampler, "draw", noted)
    options = {"dtype": "float32", "batch_invariant": True, "speculative": "draft_model"}
    options |= {"draft_model": str(tmp_path / "draft"), "num_speculative_tokens": 3}
    found = []
    for way in (ALONE, WAYS["chunks of 7"]):
        answers(tmp_path / "target", FEW, **options, **way)
        found.append(dict(drawn))
        drawn.clear()
    assert found[0] == found[1]
    assert len(found[0]) > 12


def test_without_it_the_bits_differ(checkpoint: Path) -> None:
    wanted = answers(checkpoint, dtype="float32", **ALONE)
    assert answers(checkpoint, dtype="float32", **WAYS["together"]) != wanted


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("most_alike", "piece"),
    [(10**9, (1, 256)), (70, (1, 64)), (36, (1, 32)), (1, (2, 256)), (7, (8, 256))],
    ids=str,
)
def test_a_product_is_cut_where_many_rows_add_up_otherwise(
    dtype: torch.dtype, most_alike: int, piece: tuple[int, int]
) -> None:
    """Which a result in bfloat16 shows only where its terms cancel."""
    weight = torch.randn(24, 97, generator=torch.Generator().manual_seed(0)).to(dtype)

    def run(rows: Tensor) -> Tensor:
        terms = rows.float()[:, None] * weight.float()
        parts = terms.tensor_split(1 if len(rows) <= most_alike else 2, -1)
        return sum(sum(part.unbind(-1)) for part in parts).to(dtype)  # type: ignore[union-attr]

    assert BatchInvariant().measure(run, torch.zeros(1, 97, dtype=dtype)) == piece


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_long_requests_of_the_bundled_model(dtype: str) -> None:
    """Behind 512 keys decodes are split otherwise, and one query is another piece of C."""
    rng = random.Random(4)  # in bfloat16 the order of a sum shows in few rows
    prompts = [[rng.randrange(8, 2000) for _ in range(n)] for n in (560, 40, 700)]
    both = {"dtype": dtype, "batch_invariant": True, "num_kv_blocks": 200}
    wanted = answers("tiny", prompts, **both, max_num_seqs=1, enable_prefix_caching=False)
    assert answers("tiny", prompts, **both, long_prefill_token_threshold=100) == wanted
    longer = [[*prompt, *answer[0][:6]] for prompt, answer in zip(prompts, wanted, strict=False)]
    again = answers("tiny", longer, **both)[:3]
    assert [tokens[:6] for tokens, _ in again] == [tokens[6:] for tokens, _ in wanted[:3]]
    assert [rows[:6] for _, rows in again] == [rows[6:] for _, rows in wanted[:3]]


@pytest.mark.nightly
@pytest.mark.skipif(
    bool(why_not("triton", torch.device("cpu"))), reason="Triton is not interpreted"
)
def test_the_interpreted_triton_rung_has_the_same_bits(checkpoint: Path) -> None:
    """A query at a time, so with few of them."""

    def run(is_invariant: bool, **options: int) -> list[Any]:
        both = {"dtype": "float32", "attention_backend": "triton", "num_kv_blocks": 40}
        llm = LLM(str(checkpoint), device="cpu", batch_invariant=is_invariant, **both, **options)
        params = SamplingParams(temperature=0, max_tokens=3, logprobs=2, ignore_eos=True)
        outputs = llm.generate([[*range(10, 19)], [20, 21, 22]], params)
        return [(out.outputs[0].token_ids, out.outputs[0].logprobs) for out in outputs]

    alone, together = {"max_num_seqs": 1}, {"long_prefill_token_threshold": 4}
    assert run(True, **alone) == run(True, **together)
    assert run(False, **alone) != run(False, **together)


@pytest.mark.parametrize(
    "options",
    [{"quantization": "int8"}, {"attention_backend": "torch"}, {"cudagraph_mode": "full"}],
    ids=str,
)
def test_what_has_other_sums_in_other_batches_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError, match="batch_invariant"):
        LLM("tiny", device="cpu", batch_invariant=True, num_kv_blocks=40, **options)
