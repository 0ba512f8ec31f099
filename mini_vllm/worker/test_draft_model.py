"""A draft model beside its target: the same greedy tokens, and at a temperature the same
distribution.
"""

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file, save_file  # noqa: E402

from mini_vllm import LLM  # noqa: E402
from mini_vllm.errors import InvalidParameterError  # noqa: E402
from mini_vllm.models.checkpoint import resolve_model  # noqa: E402
from mini_vllm.params import SamplingParams  # noqa: E402
from mini_vllm.step import SamplingRow  # noqa: E402
from mini_vllm.worker.draft_model import DraftSampler, Proposals, RejectionSampler  # noqa: E402
from mini_vllm.worker.executor import Executor  # noqa: E402
from mini_vllm.worker.sampler import Draw  # noqa: E402
from mini_vllm.worker.sampling.candidates import Limits, candidates, limits_of  # noqa: E402

TEXTS = [
    "A KV cache block is",
    "Chunked prefill splits a prompt. Chunked prefill splits",
    "one two three one two",
]


DRAFT = "tiny-draft"  # often right, and often not


def make(draft: str | None, k: int = 4, **options: Any) -> LLM:
    if draft is not None:
        options |= {"speculative": "draft_model", "draft_model": draft, "num_speculative_tokens": k}
    return LLM("tiny", dtype="float32", **{"num_kv_blocks": 64, **options})


def tokens(llm: LLM, params: Sequence[SamplingParams]) -> list[Any]:
    return [
        [(c.token_ids, c.text) for c in output.outputs] for output in llm.generate(TEXTS, params)
    ]


TIGHT = {"num_kv_blocks": 32, "block_size": 4}
CASES: list[dict[str, Any]] = [
    {},
    {**TIGHT, "max_num_batched_tokens": 12},
    {**TIGHT, "preemption_mode": "swap", "num_cpu_blocks": 64},
    {**TIGHT, "enable_prefix_caching": False, "policy": "priority"},
    {"scheduler": "prefill_first", "max_model_len": 44},
]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(each, marks=[] if i == 1 else pytest.mark.slow, id=str(i))
        for i, each in enumerate(CASES)
    ],
)
def test_greedy_tokens_are_those_of_the_target_alone(options: dict[str, Any]) -> None:
    """Chunks, preemption, swapping, choices, penalties, and the end of the longest length."""
    common: dict[str, Any] = {"temperature": 0, "max_tokens": 40, "ignore_eos": True}
    params = [
        SamplingParams(**common, n=2),
        SamplingParams(**common, presence_penalty=0.4),
        SamplingParams(**common, stop=("KV",)),
    ]
    plain, llm = make(None, **options), make(DRAFT, k=3, **options)
    assert tokens(llm, params) == tokens(plain, params)
    stats: Any = llm.engine.scheduler.speculation_stats  # type: ignore[attr-defined]
    assert 0 < stats.num_accepted_tokens < stats.num_draft_tokens
    assert llm.engine.core.num_steps < plain.engine.core.num_steps
    assert (
        llm.engine.scheduler.kv_cache_manager.num_free_blocks
        == llm.engine.kv_cache_plan.num_blocks - 1
    )
    executor: Any = llm.engine.executor
    assert not executor._drafts
    assert not executor._lengths


@pytest.mark.slow
def test_one_step_ahead_as_many_drafts_are_right() -> None:
    params = [SamplingParams(temperature=0, max_tokens=40, ignore_eos=True)] * len(TEXTS)
    found = []
    for is_ahead in (False, True):
        llm = make(DRAFT, async_scheduling=is_ahead)
        found.append((tokens(llm, params), llm.engine.scheduler.speculation_stats))  # type: ignore[attr-defined]
    assert found[0] == found[1]


@pytest.mark.nightly
@pytest.mark.parametrize("method", ["draft_model", "ngram"])
def test_greedy_tokens_are_those_of_transformers(method: str) -> None:
    """Assisted generation and prompt lookup, on the same checkpoints; at last a question that was
    answered before.
    """
    from transformers import AutoModelForCausalLM

    def load(name: str) -> Any:
        return AutoModelForCausalLM.from_pretrained(resolve_model(name), dtype=torch.float32).eval()

    drafts = (
        {"assistant_model": load(DRAFT)}
        if method == "draft_model"
        else {"prompt_lookup_num_tokens": 4}
    )
    target, llm = load("tiny"), LLM("tiny", dtype="float32", speculative=method, num_kv_blocks=64)
    chat, params = (
        [{"role": "user", "content": "What is a KV block?"}],
        SamplingParams(temperature=0, max_tokens=40),
    )
    answer = llm.chat(chat, params)[0].outputs[0].text
    again = llm.apply_chat_template([*chat, {"role": "assistant", "content": answer}, *chat])
    for prompt in (*map(llm.engine.tokenize, TEXTS), again):
        found = target.generate(
            torch.tensor([prompt]), max_new_tokens=40, do_sample=False, **drafts
        )[0]
        assert found.tolist() == prompt + llm.generate([prompt], params)[0].outputs[0].token_ids
    stats: Any = llm.engine.scheduler.speculation_stats  # type: ignore[attr-defined]
    assert stats.num_accepted_tokens > 20


def test_the_bundled_model_has_a_draft_model_of_its_own() -> None:
    """At most 1 MB, and mostly right about the glossary."""
    assert sum(file.stat().st_size for file in resolve_model(DRAFT).iterdir()) < 1_000_000
    llm = LLM("tiny", dtype="float32", speculative="draft_model", num_kv_blocks=200)
    assert llm.engine.config.draft_model == DRAFT
    names = (
        "a KV block",
        "a token budget",
        "preemption",
        "chunked prefill",
        "a block table",
        "an n-gram",
    )
    chats = [[{"role": "user", "content": f"What is {name}?"}] for name in names]
    llm.chat(chats, SamplingParams(temperature=0, max_tokens=100))
    stats: Any = llm.engine.scheduler.speculation_stats  # type: ignore[attr-defined]
    assert stats.num_accepted_tokens > 0.5 * stats.num_draft_tokens


@pytest.mark.parametrize("temperature", [pytest.param(0.0, marks=pytest.mark.slow), 0.9])
def test_a_draft_model_like_its_target_is_always_right(temperature: float) -> None:
    """Its K and V are right behind hits, chunks and accepted drafts: else some draft would
    differ.
    """
    llm = make("tiny", block_size=4, max_num_batched_tokens=40)
    params = [
        SamplingParams(temperature=temperature, seed=i, max_tokens=50, ignore_eos=True, top_p=0.95)
        for i in (1, 2, 3)
    ]
    for _ in range(2):  # the second time the prompts are found in the prefix cache
        llm.generate(TEXTS, params)
    stats: Any = llm.engine.scheduler.speculation_stats  # type: ignore[attr-defined]
    assert stats.num_draft_tokens > 150
    assert stats.num_accepted_tokens >= stats.num_draft_tokens - 8  # of padding


@pytest.mark.slow
def test_the_same_seeds_give_the_same_tokens_again() -> None:
    params = [
        SamplingParams(temperature=1.0, seed=i, max_tokens=20, ignore_eos=True, logprobs=1)
        for i in range(3)
    ]
    assert tokens(make(DRAFT), params) == tokens(make(DRAFT), params)


def test_log_probabilities_are_those_of_the_token_that_was_taken() -> None:
    params = SamplingParams(temperature=1.0, seed=3, max_tokens=30, ignore_eos=True, logprobs=0)
    choice = make(DRAFT).generate(TEXTS[0], params)[0].outputs[0]
    assert choice.logprobs is not None
    assert [list(entry) for entry in choice.logprobs] == [
        [token_id] for token_id in choice.token_ids
    ]


def test_other_tokens_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InvalidParameterError,
        match=r"draft_model must have the tokenizer of the model: .* has 96 tokens",
    ):
        make(str(checkpoint))
    shutil.copytree(resolve_model(DRAFT), tmp_path / "other")
    file = tmp_path / "other" / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    first, second = list(tokenizer["model"]["vocab"])[5:7]
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    file.write_text(json.dumps(tokenizer))
    with pytest.raises(InvalidParameterError, match="or other texts"):
        make(str(tmp_path / "other"))


def test_another_executor_is_refused_by_name() -> None:
    class Elsewhere(Executor):
        pass

    with pytest.raises(
        InvalidParameterError, match="draft_model needs LocalExecutor, got Elsewhere"
    ):
        LLM("tiny", speculative="draft_model", draft_model=DRAFT, executor_cls=Elsewhere)


# --- rejection sampling ---------------------------------------------------------------------------


def p_value(counts: Any, expected: Any) -> float:
    """Of Pearson's chi-square, over the classes that can occur."""
    possible = expected > 0
    assert counts[~possible].sum() == 0
    statistic = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
    freedom = int(possible.sum()) - 1
    return float(
        torch.special.gammaincc(torch.tensor(freedom / 2).double(), (statistic / 2).double())
    )


def limits_by(params: SamplingParams, num_rows: int) -> Limits:
    """Those of so many equal rows."""
    numbers = torch.tensor([params.temperature, params.min_p, params.top_k, params.top_p]).double()
    return limits_of([SamplingRow(params)], numbers.unsqueeze(1).expand(-1, num_rows))


def draw_with_drafts(
    params: SamplingParams, target: Any, drafter: Any, num_draws: int
) -> tuple[Any, Any, float]:
    """Counts of tokens, how many are expected, and the share of accepted drafts; each draw has a
    seed of its own.
    """
    counts, num_accepted, size = torch.zeros(len(target)).double(), 0, 20_000
    for start in range(0, num_draws, size):
        rows = [SamplingRow(params, seed) for seed in range(start, min(start + size, num_draws))]
        proposals: Proposals = {id(row): (row, {}) for row in rows}
        keys = torch.tensor([row.key(5) for row in rows])
        how = Draw(rows, [5] * len(rows), keys, limits_by(params, len(rows)))
        drafts = DraftSampler(proposals).draw(
            drafter.expand(len(rows), -1), drafter.max().expand(len(rows)), how
        )
        taken = RejectionSampler(proposals).draw(
            target.expand(len(rows), -1), target.max().expand(len(rows)), how
        )
        counts += torch.bincount(taken, minlength=len(target))
        num_accepted += int((drafts == taken).sum())
    scores = candidates(target.unsqueeze(0), target.max().unsqueeze(0), limits_by(params, 1))
    p = scores.softmax(-1)[0].double()
    return counts, p * num_draws, num_accepted / num_draws


LOGITS = torch.tensor([2.0, 1.5, 0.3, 0.0, -0.5, -1.0, -2.0, -4.0])
DISTRIBUTIONS: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": 0.8},
    "hot": {"temperature": 1.7},
    "top_k": {"temperature": 1.0, "top_k": 4},
    "top_p": {"temperature": 1.0, "top_p": 0.8},
    "min_p": {"temperature": 1.0, "min_p": 0.1},
    "all": {"temperature": 1.2, "top_k": 6, "top_p": 0.95, "min_p": 0.02},
}
DRAFTERS = {
    "like": LOGITS * 0.7 + 0.1,
    "reversed": LOGITS.flip(0),
    "certain": torch.tensor([0.0, 9.0] + [0.0] * 6),
}


@pytest.mark.parametrize(
    "drafter", ["reversed", *(pytest.param(d, marks=pytest.mark.slow) for d in ("like", "certain"))]
)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_tokens_have_the_distribution_of_the_target(name: str, drafter: str) -> None:
    params = SamplingParams(**DISTRIBUTIONS[name])
    counts, expected, accepted = draw_with_drafts(params, LOGITS, DRAFTERS[drafter], 2000)
    assert p_value(counts, expected) > 0.002  # 18 fixed draws
    assert accepted < 0.99


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "drafter"), [("hot", "reversed"), ("all", "like"), ("top_p", "certain")]
)
def test_a_million_tokens_have_the_distribution_of_the_target(name: str, drafter: str) -> None:
    counts, expected, _ = draw_with_drafts(
        SamplingParams(**DISTRIBUTIONS[name]), LOGITS, DRAFTERS[drafter], 1_000_000
    )
    assert p_value(counts, expected) > 0.001


@pytest.mark.slow
def test_the_share_of_accepted_drafts_is_what_the_distributions_share() -> None:
    """Leviathan et al. 2023, corollary 3.6: the sum of min(p, q)."""
    params = SamplingParams(temperature=1.0)
    _, _, accepted = draw_with_drafts(params, LOGITS, DRAFTERS["reversed"], 10_000)
    p, q = LOGITS.softmax(-1), DRAFTERS["reversed"].softmax(-1)
    assert abs(accepted - float(torch.minimum(p, q).sum())) < 0.02


@pytest.mark.nightly
def test_sequences_have_the_distribution_of_the_target_alone(
    checkpoint: Path, tmp_path: Path
) -> None:
    """Three tokens of an alphabet of three, through the whole engine, with and without another
    random model.
    """
    shutil.copytree(checkpoint, tmp_path / "other")
    file = tmp_path / "other" / "model.safetensors"
    save_file({name: weight.flip(0).contiguous() for name, weight in load_file(file).items()}, file)
    options: dict[str, Any] = {"speculative": "draft_model", "draft_model": str(tmp_path / "other")}
    counts = []
    for each in ({}, options):
        llm = LLM(
            str(checkpoint), dtype="float32", num_speculative_tokens=2, num_kv_blocks=2000, **each
        )
        params = [
            SamplingParams(
                temperature=0.5,
                seed=i,
                max_tokens=3,
                ignore_eos=True,
                allowed_token_ids=(11, 12, 40),
            )
            for i in range(2000)
        ]
        outputs = llm.generate([[5, 6, 7]] * 2000, params)
        counts.append(Counter(tuple(output.outputs[0].token_ids) for output in outputs))
    stats: Any = llm.engine.scheduler.speculation_stats  # type: ignore[attr-defined]
    assert 0 < stats.num_accepted_tokens < stats.num_draft_tokens
    names = sorted(counts[0] | counts[1])
    table = torch.tensor([[each[name] for name in names] for each in counts]).double()
    expected = table.sum(0, keepdim=True) / 2
    statistic = ((table - expected) ** 2 / expected).sum()
    assert (
        torch.special.gammaincc(torch.tensor((len(names) - 1) / 2).double(), statistic / 2) > 0.001
    )
