"""Drafts through the whole engine: the tokens are those without drafts, whatever proposes, and
steps are saved.
"""

import itertools
import json
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mini_vllm import LLM
from mini_vllm.errors import InvalidParameterError
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.params import SamplingParams
from mini_vllm.request import Request
from mini_vllm.spec_decode import MATCHES
from mini_vllm.spec_decode.proposers import NgramProposer, Pace, SuffixProposer
from mini_vllm.spec_decode.scheduler import SpeculativeScheduler

RECORDED_DRAFTS = Path(__file__).resolve().parents[2] / "traces/vllm-0.33.0-ngram/drafts.json"

TEXTS = [
    "A KV cache block is",
    "Chunked prefill splits a prompt. Chunked prefill splits",
    "one two three one two",
]


class Scripted:
    """Knows the answers, and is right with probability `accuracy`, by a draw of its own for each
    draft.
    """

    def __init__(self, answers: dict[Any, list[int]], accuracy: float, seed: int = 0) -> None:
        self.answers, self.accuracy, self.rng = answers, accuracy, random.Random(seed)

    def propose(self, request: Request, num_tokens: int) -> list[int]:
        done = len(request.output_token_ids)
        answer = self.answers[tuple(request.prompt_token_ids), request.choice_index][
            done : done + num_tokens
        ]
        return [
            token_id if self.rng.random() < self.accuracy else (token_id + 1) % 2048
            for token_id in answer
        ]

    def forget(self, request: Request) -> None:
        pass


def sampling(temperature: float, max_tokens: int = 30, **options: Any) -> list[SamplingParams]:
    """Log-probabilities, penalties, choices and a cut vocabulary."""
    common = {"temperature": temperature, "max_tokens": max_tokens, "ignore_eos": True, **options}
    return [
        SamplingParams(seed=7, logprobs=2, **common),
        SamplingParams(seed=8, presence_penalty=0.3, repetition_penalty=1.2, top_p=0.9, **common),
        SamplingParams(seed=9, n=2, min_p=0.02, top_k=40, **common),
    ]


def shown(outputs: Sequence[Any]) -> list[Any]:
    """Logits of a batch of another shape differ in the last bits, and so do log-probabilities."""
    return [
        [
            (
                c.token_ids,
                c.text,
                c.finish_reason,
                c.logprobs and [next(iter(entry)) for entry in c.logprobs],
            )
            for c in output.outputs
        ]
        for output in outputs
    ]


def answers_of(outputs: Sequence[Any]) -> dict[Any, list[int]]:
    return {
        (tuple(output.prompt_token_ids), choice.index): choice.token_ids
        for output in outputs
        for choice in output.outputs
    }


def make(
    proposer: str | float | None, k: int, answers: dict[Any, list[int]], **options: Any
) -> LLM:
    """An engine whose drafts are from a proposer, or right with the probability that stands in its
    place.
    """
    method = proposer if isinstance(proposer, str | None) else "ngram"
    llm = LLM("tiny", dtype="float32", speculative=method, num_speculative_tokens=k, **options)
    if isinstance(proposer, float):
        scheduler: Any = llm.engine.scheduler
        scheduler.proposer = Scripted(answers, proposer)
    return llm


def compare(
    proposer: str | float, k: int, params: list[SamplingParams], **options: Any
) -> tuple[LLM, int]:
    """The same tokens with and without drafts; returns the engine with drafts, and how many steps
    were saved.
    """
    plain = LLM("tiny", dtype="float32", **options)
    expected = plain.generate(TEXTS, params)
    llm = make(proposer, k, answers_of(expected), **options)
    assert shown(llm.generate(TEXTS, params)) == shown(expected)
    assert (
        llm.engine.scheduler.kv_cache_manager.num_free_blocks
        == llm.engine.kv_cache_plan.num_blocks - 1
    )
    return llm, plain.engine.core.num_steps - llm.engine.core.num_steps


QUICK = (("ngram", 0.0), (0.6, 1.0))


@pytest.mark.parametrize(
    ("proposer", "temperature"),
    [
        pytest.param(*each, marks=[] if each in QUICK else pytest.mark.slow)
        for each in itertools.product(("ngram", "suffix", 0.0, 0.6, 1.0), (0.0, 1.0))
    ],
)
def test_tokens_are_those_without_drafts(proposer: str | float, temperature: float) -> None:
    """At any temperature: a draft is accepted if it is the token that its place gets anyway."""
    llm, num_saved = compare(proposer, 4, sampling(temperature), num_kv_blocks=64)
    stats: Any = llm.engine.scheduler.speculation_stats  # type: ignore[attr-defined]
    if proposer == 1.0:
        assert num_saved > 20
        assert stats.num_accepted_tokens == stats.num_draft_tokens
    if proposer == 0.0:
        assert (num_saved, stats.num_accepted_tokens) == (0, 0)
        # four requests soon stop to try; in 29 steps each could have 116
        assert stats.num_draft_tokens < 4 * 20


AXES: dict[str, Sequence[Any]] = {
    "proposer": [None, "ngram", "suffix", "draft_model", 0.0, 0.5, 0.9, 1.0],
    "temperature": [0.0, 0.8],
    "k": [1, 2, 4, 7],
    "max_num_batched_tokens": [9, 24, 2048],
    "block_size": [1, 4, 16],
    "num_kv_tokens": [112, 240],
    "enable_prefix_caching": [True, False],
    "policy": ["fcfs", "priority"],
    "scheduler": ["v1", "prefill_first", "warm_first"],
    "preemption_mode": ["recompute", "swap"],
    "stop": [(), ("e",), ("s a",)],
    "long_prefill_token_threshold": [0, 5],
    "prompt_lookup_match": MATCHES,
}


def lattice(number: int, seed: int = 0) -> list[dict[str, Any]]:
    """Combinations drawn at random, without those that an engine without drafts refuses, too."""
    rng, found = random.Random(seed), []
    while len(found) < number:
        point = {name: rng.choice(values) for name, values in AXES.items()}
        if point["scheduler"] == "warm_first" and point["policy"] == "priority":
            continue
        if point["proposer"] == "draft_model":
            point["temperature"] = 0.0  # at any other its tokens are the same in distribution only
        found.append(point)
    return found


POINTS = lattice(400)


@cache
def without_drafts(temperature: float, stop: tuple[str, ...]) -> list[Any]:
    """What every point of the lattice with these two must give."""
    return LLM("tiny", dtype="float32", num_kv_blocks=64).generate(
        TEXTS, sampling(temperature, 24, stop=stop)
    )


def check_point(point: dict[str, Any]) -> None:
    options = dict(point)
    proposer, k, temperature, stop = (
        options.pop(name) for name in ("proposer", "k", "temperature", "stop")
    )
    options["num_kv_blocks"] = 1 + options.pop("num_kv_tokens") // options["block_size"]
    if options["preemption_mode"] == "swap":
        options["num_cpu_blocks"] = 64
    expected = without_drafts(temperature, stop)
    llm = make(proposer, k, answers_of(expected), **options)
    assert shown(llm.generate(TEXTS, sampling(temperature, 24, stop=stop))) == shown(expected)
    assert llm.engine.scheduler.kv_cache_manager.num_free_blocks == options["num_kv_blocks"] - 1


@pytest.mark.parametrize(
    "number",
    [pytest.param(i, marks=pytest.mark.slow if i % 100 else ()) for i in range(0, 400, 10)],
)
def test_a_slice_of_the_lattice(number: int) -> None:
    check_point(POINTS[number])


@pytest.mark.nightly
def test_the_lattice() -> None:
    for point in POINTS:
        try:
            check_point(point)
        except AssertionError as error:
            raise AssertionError(f"{point}: {error}") from error


@pytest.mark.parametrize(
    "proposer",
    [pytest.param("ngram", marks=pytest.mark.slow)]
    + [pytest.param(each, marks=pytest.mark.nightly) for each in ("suffix", 0.5, 1.0)],
)
def test_a_grammar_masks_what_follows_each_draft(proposer: str | float) -> None:
    pytest.importorskip("xgrammar")
    common: dict[str, Any] = {"temperature": 0.8, "max_tokens": 40}
    forms = (
        {"regex": "(ab ?){4,12}"},
        {"json": {"type": "array", "items": {"type": "integer"}, "minItems": 3}},
        None,
    )
    params = [SamplingParams(seed=i, structured=form, **common) for i, form in enumerate(forms)]
    llm, _ = compare(proposer, 4, params, num_kv_blocks=64)
    expected = LLM("tiny", dtype="float32", num_kv_blocks=64).generate(TEXTS, params)
    # now all is ready, and "suffix" knows the answers
    assert shown(llm.generate(TEXTS, params)) == shown(expected)
    stats: Any = llm.engine.scheduler.speculation_stats  # type: ignore[attr-defined]
    assert stats.num_accepted_tokens > 0
    llm.engine.shutdown()


def test_the_end_of_a_form_is_the_last_token_though_drafts_behind_it_were_right() -> None:
    params = SamplingParams(
        temperature=0, max_tokens=30, ignore_eos=True, structured={"choice": ["none"]}
    )
    options: dict[str, Any] = {"num_kv_blocks": 64, "structured_outputs_backend": "automaton"}
    prompt, without = "What is a slot?", LLM("tiny", dtype="float32", **options)
    [expected] = without.generate(prompt, params)
    text, answer = expected.prompt_token_ids, expected.outputs[0].token_ids
    [behind] = without.generate([text + answer], SamplingParams(temperature=0, max_tokens=2))
    answers = {(tuple(text), 0): answer + behind.outputs[0].token_ids}
    [found] = make(1.0, 8, answers, **options).generate(prompt, params)
    assert (found.outputs[0].finish_reason, shown([found])) == ("stop", shown([expected]))


@pytest.mark.parametrize("scheduler", ["sequence_group", "nano_vllm"])
def test_a_policy_that_cannot_carry_drafts_is_refused_by_name(scheduler: str) -> None:
    with pytest.raises(
        InvalidParameterError,
        match="speculative needs a scheduler that decides as Scheduler does, got",
    ):
        LLM("tiny", speculative="ngram", scheduler=scheduler)


@pytest.mark.parametrize(
    "options",
    [
        {"speculative": "eagle"},
        {"speculative": "draft_model", "draft_model": 3},
        {"draft_model": "tiny"},
        {"num_speculative_tokens": 0},
        {"prompt_lookup_min": 4, "prompt_lookup_max": 3},
        {"prompt_lookup_match": "newest"},
    ],
)
def test_a_bad_option_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(
        InvalidParameterError,
        match=list(options)[-1].replace("speculative", "(speculative|draft_model)"),
    ):
        LLM("tiny", **options)


# --- proposers ------------------------------------------------------------------------------------


def request_of(token_ids: Sequence[int], name: str = "a", **options: Any) -> Request:
    return Request(name, token_ids, SamplingParams(), **options)


def look_up(token_ids: Sequence[int], min_n: int, max_n: int, k: int, match: str) -> list[int]:
    """Prompt lookup, said in a few lines."""
    padding = [token_ids[-1]] * k if match == "last" else []
    for n in range(min(max_n, len(token_ids) - 1), min_n - 1, -1):
        for end in range(n, len(token_ids))[:: -1 if match == "last" else 1]:
            if token_ids[end - n : end] == token_ids[-n:]:
                return [*token_ids[end : end + k], *padding][:k]
    return padding


def proposer_of(match: str, min_n: int, max_n: int) -> NgramProposer:
    """What a scheduler with this option asks."""
    scheduler = SpeculativeScheduler(
        KVCacheManager(4, 4),
        max_num_seqs=8,
        max_num_batched_tokens=64,
        prompt_lookup_min=min_n,
        prompt_lookup_max=max_n,
        prompt_lookup_match=match,
    )
    assert isinstance(scheduler.proposer, NgramProposer)
    return scheduler.proposer


@pytest.mark.parametrize("match", MATCHES)
def test_ngram_finds_what_a_search_finds(match: str) -> None:
    rng = random.Random(1)
    for min_n, max_n in itertools.product((1, 2, 3), (3, 5)):
        proposer = proposer_of(match, min_n, max_n)
        request = request_of([rng.randrange(3)], f"{min_n} {max_n}")
        for _ in range(120):
            k = rng.randrange(5)
            expected = look_up(request.all_token_ids, min_n, max_n, k, match)
            assert list(proposer.propose(request, k)) == expected
            for _ in range(rng.randrange(3)):
                request.append_output_token(rng.randrange(3))
        proposer.forget(request)
        assert not proposer._texts


@pytest.mark.parametrize("match", MATCHES)
def test_ngram_drafts_as_vllm(match: str) -> None:
    """First: NgramProposer of the first model runner; last: NgramGPUSpeculator of the second."""
    for case in json.loads(RECORDED_DRAFTS.read_text()):
        proposer = proposer_of(match, case["prompt_lookup_min"], case["prompt_lookup_max"])
        drafts = proposer.propose(request_of(case["token_ids"]), case["num_speculative_tokens"])
        assert list(drafts) == case[match]


def test_the_recorded_drafts_show_where_the_matches_differ() -> None:
    cases = json.loads(RECORDED_DRAFTS.read_text())
    assert len(cases) == 160
    assert sum(case["first"] != case["last"][: len(case["first"])] for case in cases) > 40
    assert sum(not case["first"] for case in cases) > 20
    assert sum(0 < len(case["first"]) < case["num_speculative_tokens"] for case in cases) > 5


def test_suffix_proposes_what_followed_most_often() -> None:
    proposer = SuffixProposer(2)
    assert proposer.propose(request_of([1, 2, 3, 9, 1, 2, 4, 9, 1, 2, 3, 9, 1, 2]), 3) == [3, 9, 1]
    finished = request_of([5, 6, 7, 8], "b")
    proposer.propose(finished, 1)
    finished.append_output_token(0)
    proposer.forget(finished)
    assert proposer.propose(request_of([6, 7], "c"), 4) == [8, 0]
    assert proposer.propose(request_of([6, 7], "d", cache_salt="x"), 4) == []


def test_suffix_stops_where_it_is_unsure() -> None:
    proposer = SuffixProposer(1)
    followers = [token_id for i in range(20) for token_id in (1, 2 + i)]
    assert proposer.propose(request_of([*followers, 1]), 4) == []


def test_pace_shrinks_to_none_and_tries_again() -> None:
    pace = Pace(4)
    lengths = []
    for _ in range(60):
        lengths.append(pace.next_length())
        if lengths[-1]:
            pace.learn(lengths[-1], 0)
    assert lengths[:15] == [1, *[0] * 4, 1, *[0] * 8, 1]
    assert sum(lengths[15:]) == 1  # after 16 steps; the next try would come after 32
    while not (length := pace.next_length()):
        pass
    assert length == 1
    for _ in range(9):
        pace.learn(length, length)
        length = pace.next_length()
    assert length == 4


@pytest.mark.parametrize("most", range(1, 17))
def test_pace_never_asks_for_more_than_the_most(most: int) -> None:
    pace = Pace(most)
    assert pace.next_length() == 1
    pace.learn(1, 1)
    for _ in range(100):
        assert pace.next_length() == most
        pace.learn(most, most)


@pytest.mark.parametrize(
    ("share", "low", "high"), [(0.0, 0.0, 0.2), (0.5, 1.8, 2.6), (0.8, 3.2, 4.0), (1.0, 3.998, 4.0)]
)
def test_pace_asks_for_as_large_a_share_as_is_right(share: float, low: float, high: float) -> None:
    rng, pace, total = random.Random(3), Pace(4), 0
    for _ in range(2000):
        length = pace.next_length()
        total += length
        if length:
            pace.learn(length, next((i for i in range(length) if rng.random() >= share), length))
    assert low <= total / 2000 <= high
