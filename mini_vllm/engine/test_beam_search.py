"""Beam search: transformers' beams, token for token, whatever the scheduler does to them; and the
rules one by one.
"""

import itertools
import random
import threading
from collections import Counter
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from mini_vllm import LLM, SamplingParams
from mini_vllm.engine.beam_search import BeamSearch, BeamSearchOutput, BeamSearchParams
from mini_vllm.engine.recovery import RecoveringCore
from mini_vllm.engine.test_recovery import with_core
from mini_vllm.errors import (
    EngineBusyError,
    InvalidParameterError,
    PromptTooLongError,
    UnknownParameterError,
)
from mini_vllm.frontend.output_processor import CompletionOutput, RequestOutput
from mini_vllm.models.checkpoint import resolve_model
from mini_vllm.policies.registry import SCHEDULERS
from mini_vllm.step import Logprob

TINY = resolve_model("tiny")
PROMPTS = [
    [5, 9, 20, 31, 42, 53, 64, 75, 86, 11, 22, 33, 44],
    [70],
    list(range(40, 56)),
    [3, 1, 4, 1, 5],
]
RULES: list[tuple[float, bool | str]] = [
    (1.0, False),
    (0.0, "never"),
    (2.0, True),
    (-1.0, False),
    (1.5, "never"),
]


@pytest.fixture(scope="module")
def hf_random(checkpoint: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)


@pytest.fixture(scope="module")
def hf_tiny() -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)


def hf_beams(
    model: Any, prompt: list[int], params: BeamSearchParams, eos: list[int]
) -> tuple[list[list[int]], list[float]]:
    """transformers' beams, each up to its EOS, and their scores."""
    found = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        num_beams=params.beam_width,
        num_return_sequences=params.beam_width,
        do_sample=False,
        temperature=None,
        max_new_tokens=params.max_tokens,
        length_penalty=params.length_penalty,
        early_stopping=params.early_stopping,
        eos_token_id=eos or None,
        pad_token_id=0,
        return_dict_in_generate=True,
        output_scores=True,
    )
    rows = found.sequences[:, len(prompt) :].tolist()
    ends = [
        next((i + 1 for i, token in enumerate(row) if token in eos), params.max_tokens)
        for row in rows
    ]
    return [row[:end] for row, end in zip(rows, ends, strict=True)], found.sequences_scores.tolist()


def assert_same_beams(
    output: BeamSearchOutput, expected: tuple[list[list[int]], list[float]]
) -> None:
    token_ids, scores = expected
    assert [list(beam.token_ids) for beam in output.sequences] == token_ids
    assert [beam.score for beam in output.sequences] == pytest.approx(scores, rel=1e-4, abs=1e-4)


def eos_sets(llm: LLM) -> list[tuple[int, ...]]:
    """EOS ids that the model is likely to say."""
    params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
    likely = [output.outputs[0].token_ids for output in llm.generate(PROMPTS, params)]
    return [(likely[0][4], likely[1][6]), tuple({tokens[7] for tokens in likely}), ()]


def make_llm(model: Path, **config: Any) -> LLM:
    return LLM(str(model), **({"dtype": "float32", "num_kv_blocks": 400} | config))


@pytest.mark.slow
def test_transformers_finds_the_same_beams(checkpoint: Path, hf_random: Any) -> None:
    llm = make_llm(checkpoint, block_size=4)
    num_early = 0
    for (penalty, early_stopping), eos in zip(RULES, itertools.cycle(eos_sets(llm)), strict=False):
        llm.engine.input_processor.eos_token_ids = frozenset(eos)
        params = BeamSearchParams(4, 14, length_penalty=penalty, early_stopping=early_stopping)
        for prompt, output in zip(PROMPTS, llm.beam_search(PROMPTS, params), strict=True):
            assert_same_beams(output, hf_beams(hf_random, prompt, params, list(eos)))
            assert output.prompt_token_ids == prompt
            num_early += sum(len(beam.token_ids) < 14 for beam in output.sequences)
        assert_idle(llm)
    assert num_early >= 3, "EOS must occur inside"


@pytest.mark.parametrize(
    "width",
    [pytest.param(n, marks=pytest.mark.slow if n == 4 else pytest.mark.nightly) for n in (2, 4, 8)],
)
def test_transformers_finds_the_same_beams_by_every_rule(
    checkpoint: Path, hf_random: Any, width: int
) -> None:
    llm = make_llm(checkpoint, block_size=4)
    rng = random.Random(width)
    for (penalty, early_stopping), eos in itertools.product(RULES, eos_sets(llm)):
        llm.engine.input_processor.eos_token_ids = frozenset(eos)
        params = BeamSearchParams(
            width, rng.choice((1, 5, 20)), length_penalty=penalty, early_stopping=early_stopping
        )
        prompts = [[rng.randrange(96) for _ in range(rng.randint(1, 20))] for _ in range(8)]
        for prompt, output in zip(prompts, llm.beam_search(prompts, params), strict=True):
            assert_same_beams(output, hf_beams(hf_random, prompt, params, list(eos)))


@pytest.mark.slow
def test_transformers_finds_the_same_beams_on_the_bundled_model(hf_tiny: Any) -> None:
    llm = make_llm(TINY)
    prompts = [
        llm.apply_chat_template([{"role": "user", "content": "What is a KV block?"}]),
        llm.engine.tokenize("the scheduler"),  # type: ignore[list-item]
    ]
    params = BeamSearchParams(4, 24)
    for prompt, output in zip(prompts, llm.beam_search(prompts, params), strict=True):
        assert_same_beams(
            output,
            hf_beams(hf_tiny, prompt, params, sorted(llm.engine.input_processor.eos_token_ids)),
        )
    assert output.sequences[0].text == llm._decode(output.sequences[0].token_ids) != ""


WATCHED = (
    "num_preempted_reqs",
    "num_copied_blocks",
    "num_swapped_out_blocks",
    "num_swapped_in_blocks",
)


def tokens_of(outputs: list[BeamSearchOutput]) -> list[list[tuple[int, ...]]]:
    return [[beam.token_ids for beam in output.sequences] for output in outputs]


def assert_idle(llm: LLM) -> None:
    engine, scheduler = llm.engine, llm.engine.scheduler
    kv = scheduler.kv_cache_manager
    assert not engine.has_unfinished_requests()
    assert kv.num_free_blocks == kv.num_usable_blocks
    assert all(block.ref_cnt == 0 for block in kv.block_pool.blocks)
    if hasattr(kv, "cpu_pool"):
        assert kv.cpu_pool.num_free_blocks == kv.num_cpu_blocks
    assert (engine.core.runner_view._known, engine.output_processor._requests) == ({}, {})


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_every_scheduler_finds_the_same_beams_and_finds_their_prompts_in_the_cache(
    checkpoint: Path, scheduler: str
) -> None:
    params = BeamSearchParams(3, 8)
    expected = make_llm(checkpoint, enable_prefix_caching=False).beam_search(PROMPTS, params)
    llm = make_llm(checkpoint, block_size=4, scheduler=scheduler)
    generate, outputs = llm.generate, list[RequestOutput]()

    def watched(*args: Any, **options: Any) -> list[RequestOutput]:
        outputs.extend(found := generate(*args, **options))
        return found

    llm.generate = watched  # type: ignore[method-assign]
    assert tokens_of(llm.beam_search(PROMPTS, params)) == tokens_of(expected)
    for output in outputs[len(PROMPTS) :]:  # behind the first round
        num_full = (len(output.prompt_token_ids) - 1) // 4 * 4  # the last token is always computed
        assert output.num_cached_tokens == num_full, "all but the last block"
    assert any(output.num_cached_tokens for output in outputs)
    assert_idle(llm)


def test_a_stream_goes_on_beside_a_beam_search(checkpoint: Path) -> None:
    llm = make_llm(checkpoint, block_size=4)
    params = SamplingParams(temperature=0, max_tokens=20, ignore_eos=True)
    expected = llm.generate(PROMPTS[0], params)[0].outputs[0].token_ids
    stream = llm.stream(PROMPTS[0], params)
    pieces = [next(stream)]
    llm.beam_search(PROMPTS, BeamSearchParams(3, 8))
    num_steps = llm.engine.core.num_steps
    pieces += stream
    assert [token for piece in pieces for token in piece.outputs[0].token_ids] == expected
    assert llm.engine.core.num_steps - num_steps == 20 - 1 - 8, "a token of it came with each round"
    assert_idle(llm)


def test_no_other_thread_comes_between_two_rounds(checkpoint: Path) -> None:
    llm, refused = make_llm(checkpoint), list[EngineBusyError]()
    generate = llm.generate

    def other() -> None:
        with pytest.raises(EngineBusyError) as error:
            generate([1, 2])
        refused.append(error.value)

    def watched(*args: Any, **options: Any) -> list[RequestOutput]:
        outputs = generate(*args, **options)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return outputs

    llm.generate = watched  # type: ignore[method-assign]
    assert len(llm.beam_search(PROMPTS[0], BeamSearchParams(2, 4))[0].sequences) == 2
    assert len(refused) == 4


@pytest.mark.slow
def test_a_search_that_is_wider_than_the_pool_finds_the_same_beams(checkpoint: Path) -> None:
    params = BeamSearchParams(8, 50)
    expected = make_llm(checkpoint).beam_search([[1], PROMPTS[2]], params)
    llm = make_llm(checkpoint, block_size=4, num_kv_blocks=20, max_num_seqs=3)
    assert tokens_of(llm.beam_search([[1], PROMPTS[2]], params)) == tokens_of(expected)
    assert_idle(llm)


@pytest.mark.parametrize(
    ("scheduler", "num_cpu_blocks", "caching"),
    [("sequence_group", 60, True), ("sequence_group", 0, False), ("v1", 0, True)],
)
@pytest.mark.slow
def test_beams_are_the_same_under_pressure_and_beside_others(
    checkpoint: Path, scheduler: str, num_cpu_blocks: int, caching: bool
) -> None:
    params = BeamSearchParams(4, 16, early_stopping="never")
    plain = SamplingParams(temperature=1.0, seed=3, max_tokens=20, n=2, ignore_eos=True)
    roomy = make_llm(checkpoint, block_size=4)
    expected = roomy.beam_search(PROMPTS, params)
    (other,) = roomy.generate(PROMPTS[0], plain)
    tight = make_llm(
        checkpoint,
        scheduler=scheduler,
        block_size=4,
        num_kv_blocks=30,
        num_cpu_blocks=num_cpu_blocks,
        enable_prefix_caching=caching,
    )
    seen: Counter[str] = Counter()
    step = tight.engine.step

    def watched() -> Any:
        outputs = step()
        seen.update(
            {name: value for name, value in asdict(tight.engine.stats).items() if name in WATCHED}
        )  # type: ignore[arg-type]
        return outputs

    tight.engine.step = watched  # type: ignore[method-assign]
    latest: dict[str, Any] = {}
    for name in "abc":
        tight.engine.add_request(
            name, PROMPTS[0], plain, on_output=partial(latest.__setitem__, name)
        )
    assert tokens_of(tight.beam_search(PROMPTS, params)) == tokens_of(expected)
    while tight.engine.has_unfinished_requests():
        tight._step()
    for name in "abc":
        assert [choice.token_ids for choice in latest[name].outputs] == [
            choice.token_ids for choice in other.outputs
        ]
    assert seen["num_preempted_reqs"] > 0
    assert bool(seen["num_copied_blocks"]) == (scheduler == "sequence_group")
    assert (
        bool(seen["num_swapped_out_blocks"])
        == bool(seen["num_swapped_in_blocks"])
        == bool(num_cpu_blocks)
    )
    assert_idle(tight)


@pytest.mark.parametrize("at", range(0, 8, 2))
def test_a_step_that_raises_changes_no_beam(checkpoint: Path, at: int) -> None:
    params = BeamSearchParams(3, 8)
    expected = make_llm(checkpoint, block_size=4).beam_search(PROMPTS[:2], params)
    llm = with_core(make_llm(checkpoint, block_size=4), RecoveringCore)
    execute, calls = llm.engine.executor.runner.execute, itertools.count()

    def failing(step: Any) -> Any:
        result = execute(step)
        if next(calls) == at:
            raise RuntimeError("out of memory")
        return result

    llm.engine.executor.runner.execute = failing  # type: ignore[method-assign]
    assert tokens_of(llm.beam_search(PROMPTS[:2], params)) == tokens_of(expected)
    assert_idle(llm)


def test_an_error_drops_the_search_and_its_neighbours_go_on(checkpoint: Path) -> None:
    llm = make_llm(checkpoint, block_size=4)
    params = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
    expected = llm.generate(PROMPTS[0], params)[0].outputs[0].token_ids
    stream = llm.stream(PROMPTS[0], params)
    pieces = [next(stream)]
    step = llm.engine.step
    llm.engine.step = lambda: [][1]  # type: ignore[method-assign]
    with pytest.raises(IndexError):
        llm.beam_search(PROMPTS, BeamSearchParams(4, 8))
    llm.engine.step = step  # type: ignore[method-assign]
    pieces += stream
    assert [token for piece in pieces for token in piece.outputs[0].token_ids] == expected
    assert_idle(llm)


def test_what_is_refused_names_the_value_and_leaves_nothing(checkpoint: Path) -> None:
    llm = make_llm(checkpoint, block_size=4, num_kv_blocks=20)
    with pytest.raises(
        InvalidParameterError, match="beam_width must be at most 19 beside 1 EOS ids, got 20"
    ):
        llm.beam_search([[1], PROMPTS[2]], BeamSearchParams(20, 4))
    with pytest.raises(PromptTooLongError, match="the prompt has 100 tokens"):
        llm.beam_search([[1], [2] * 100], BeamSearchParams(2, 4))
    assert_idle(llm)
    for bad, message in (
        ({"beam_width": 0}, r"beam_width must be an integer in \[1, 20\], got 0"),
        ({"beam_width": 10**9}, r"beam_width must be an integer in \[1, 20\], got 1000000000"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"length_penalty": float("nan")}, "length_penalty"),
        ({"early_stopping": "sometimes"}, "True, False or 'never', got 'sometimes'"),
        ({"ignore_eos": 1}, "ignore_eos"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            BeamSearchParams(**({"beam_width": 2, "max_tokens": 4} | bad))  # type: ignore[arg-type]
    with pytest.raises(UnknownParameterError, match="did you mean 'beam_width'"):
        BeamSearchParams(beam_widht=2, max_tokens=3)  # type: ignore[call-arg]
    assert llm.beam_search([], BeamSearchParams(2, 4)) == []


def test_beams_end_at_max_model_len(checkpoint: Path) -> None:
    llm = make_llm(checkpoint, max_model_len=16)
    output = llm.beam_search(PROMPTS[0], BeamSearchParams(2, 50, ignore_eos=True))[0]
    assert [len(beam.token_ids) for beam in output.sequences] == [3, 3]


# --- the bookkeeping alone ----------------------------------------------------------------------


def search_in(
    model: Any, width: int, num_tokens: int, eos: tuple[int, ...] = (), **options: Any
) -> BeamSearch:
    """Run a search over a model(token_ids) -> log-probabilities."""
    search = BeamSearch([], BeamSearchParams(width, num_tokens, **options), num_tokens, eos)
    while not search.is_done:
        rows = [
            {i: Logprob(value, 1) for i, value in enumerate(model(tuple(prompt)))}
            for prompt in search.prompts
        ]
        search.advance([CompletionOutput(0, "", [0], "length", [row]) for row in rows])
    return search


def random_model(seed: int, vocab_size: int) -> Any:
    def logprobs(past: tuple[int, ...]) -> list[float]:
        rng = random.Random(f"{seed}/{past}")
        return torch.tensor([rng.gauss(0, 2) for _ in range(vocab_size)]).log_softmax(-1).tolist()

    return logprobs


@pytest.mark.parametrize("seed", range(5))
def test_a_search_that_is_wide_enough_finds_the_best_of_all_texts(seed: int) -> None:
    model = random_model(seed, 3)
    totals = {
        text: sum(model(text[:i])[token] for i, token in enumerate(text))
        for text in itertools.product(range(3), repeat=3)
    }
    found = search_in(model, 18, 3).finished
    best = sorted(totals, key=lambda text: -totals[text])[:3]
    assert [beam.token_ids for beam in found[:3]] == best
    assert found[0].score == pytest.approx(totals[best[0]] / 3)
    greedy = search_in(model, 1, 3).finished[0]
    assert greedy.cumulative_logprob <= found[0].cumulative_logprob


def test_early_stopping_decides_how_long_better_texts_are_looked_for() -> None:
    """EOS (0) comes early; long texts are better by their length penalty only."""

    def model(past: tuple[int, ...]) -> list[float]:
        return [-1.0, -1.1, -1.25] if not past else [-0.5, -0.6, -9.0]

    def lengths(**options: Any) -> list[int]:
        return [
            len(beam.token_ids)
            for beam in search_in(model, 2, 8, (0,), length_penalty=1.0, **options).finished
        ]

    assert lengths(early_stopping=True) == [2, 1]
    assert lengths(early_stopping=False) == [5, 4]
    assert lengths(early_stopping="never") == [8, 7]
