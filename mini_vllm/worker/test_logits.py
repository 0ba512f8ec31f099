"""Biases, allowed tokens, shortest lengths and the prompt's log-probabilities, through the whole
engine.

The bundled model in float32 beside transformers' own; each request alone, in a crowd, in chunks and
preempted.
"""

import dataclasses
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM

from mini_vllm import LLM, SamplingParams
from mini_vllm.errors import TokenIdOutOfRangeError
from mini_vllm.frontend.output_processor import RequestOutput
from mini_vllm.models.checkpoint import resolve_model
from mini_vllm.step import SamplingRow
from mini_vllm.worker.sampling.logits import edits_of, penalise, process_logits

TEXT = (
    "A KV block is a fixed-size piece of the KV cache that holds the keys and values of some tokens"
)
GREEDY = SamplingParams(temperature=0, max_tokens=12)


def make_llm(**options: Any) -> LLM:
    return LLM(
        "tiny", device="cpu", dtype="float32", **{"num_kv_blocks": 200, "block_size": 4, **options}
    )


@pytest.fixture(scope="module")
def llm() -> LLM:
    return make_llm()


@pytest.fixture(scope="module")
def hf() -> Any:
    return AutoModelForCausalLM.from_pretrained(resolve_model("tiny"), dtype=torch.float32).eval()


def tokens(llm: LLM, params: SamplingParams, prompt: str = TEXT) -> list[int]:
    return llm.generate(prompt, params)[0].outputs[0].token_ids


def test_a_bias_forces_and_forbids_a_token(llm: LLM) -> None:
    first = tokens(llm, GREEDY)[0]
    assert tokens(llm, dataclasses.replace(GREEDY, logit_bias=((77, 100.0),))) == [77] * 12
    without = tokens(llm, dataclasses.replace(GREEDY, logit_bias=((first, -100.0),)))
    assert first not in without
    assert tokens(llm, dataclasses.replace(GREEDY, logit_bias=((77, 0.0),))) == tokens(llm, GREEDY)


def test_a_bias_adds_to_the_logits(llm: LLM, hf: Any) -> None:
    """Of two tokens, the one that is behind by d wins with a bias above d and loses with one
    below.
    """
    ids = llm.engine.tokenize(TEXT)
    with torch.inference_mode():
        best, second = hf(torch.tensor([ids])).logits[0, -1].topk(2)
    (top, other), behind = second.tolist(), float(best[0] - best[1])
    for bias, wanted in ((behind - 0.01, top), (behind + 0.01, other)):
        params = dataclasses.replace(GREEDY, logit_bias=((other, bias),), max_tokens=1)
        assert tokens(llm, params) == [wanted]


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_only_allowed_tokens_are_sampled(llm: LLM, temperature: float) -> None:
    allowed = (5, 900, 901)
    params = SamplingParams(
        temperature=temperature, max_tokens=30, allowed_token_ids=allowed, seed=3, ignore_eos=True
    )
    found = tokens(llm, params)
    assert len(found) == 30
    assert set(found) <= set(allowed)


def test_no_token_ends_a_text_before_min_tokens(llm: LLM) -> None:
    eos = min(llm.engine.input_processor.eos_token_ids)
    wish = {"logit_bias": ((eos, 50.0),), "max_tokens": 9, "temperature": 0}
    assert tokens(llm, SamplingParams(**wish)) == [eos]
    found = tokens(llm, SamplingParams(**wish, min_tokens=5))
    assert (found.index(eos), len(found)) == (5, 6)
    params = SamplingParams(
        **{**wish, "logit_bias": ((77, 50.0),)}, stop_token_ids=(77,), min_tokens=3
    )
    assert tokens(llm, params).index(77) == 3


@pytest.mark.slow
def test_a_row_is_changed_as_its_own_request_asks_also_in_a_crowd(llm: LLM) -> None:
    crowd = [
        GREEDY,
        dataclasses.replace(GREEDY, logit_bias=((77, 4.0), (78, -9.0))),
        SamplingParams(max_tokens=12, seed=1, allowed_token_ids=tuple(range(300, 400))),
        SamplingParams(max_tokens=12, seed=2, min_tokens=12, repetition_penalty=1.3),
        SamplingParams(
            max_tokens=12, seed=2, logit_bias=((9, 3.0),), presence_penalty=1.0, logprobs=2
        ),
    ] * 3
    alone = [tokens(llm, params) for params in crowd]
    for other in (llm, make_llm(max_num_batched_tokens=7), make_llm(num_kv_blocks=40)):
        together = other.generate([TEXT] * len(crowd), crowd)
        assert [output.outputs[0].token_ids for output in together] == alone


# --- the prompt's log-probabilities ---------------------------------------------------------------


def check_prompt_logprobs(output: RequestOutput, hf: Any, k: int) -> None:
    ids = output.prompt_token_ids
    with torch.inference_mode():
        wanted = hf(torch.tensor([ids])).logits[0].log_softmax(-1)
    assert output.prompt_logprobs is not None
    assert output.prompt_logprobs[0] is None
    assert len(output.prompt_logprobs) == len(ids)
    for position in range(1, len(ids)):
        row, found = wanted[position - 1], output.prompt_logprobs[position]
        assert found is not None
        assert found[ids[position]].logprob == pytest.approx(float(row[ids[position]]), abs=1e-3)
        assert found[ids[position]].rank == int((row >= row[ids[position]]).sum())
        best = sorted(found, key=lambda token_id: found[token_id].rank)[:k]
        assert best == row.topk(k).indices.tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"max_num_batched_tokens": 5},
        *(pytest.param(o, marks=pytest.mark.slow) for o in ({}, {"max_num_seqs": 2})),
    ],
    ids=str,
)
def test_prompt_logprobs_are_those_of_transformers(options: dict[str, Any], hf: Any) -> None:
    llm = make_llm(**options)
    asked = dataclasses.replace(GREEDY, prompt_logprobs=3, max_tokens=2)
    texts = [TEXT, "What is a KV block?", TEXT + " and more"]
    llm.generate(texts, GREEDY)  # their blocks are cached, and must not be used
    outputs = llm.generate(
        [*texts, TEXT], [asked, GREEDY, asked, dataclasses.replace(asked, n=2, seed=1)]
    )
    for output in (outputs[0], outputs[2], outputs[3]):
        check_prompt_logprobs(output, hf, 3)
    assert outputs[1].prompt_logprobs is None
    assert outputs[0].outputs[0].token_ids == tokens(llm, GREEDY)[:2]


def test_prompt_logprobs_of_requests_that_are_preempted(hf: Any) -> None:
    llm = make_llm(num_kv_blocks=30, max_num_batched_tokens=8)
    asked = SamplingParams(temperature=0, max_tokens=40, prompt_logprobs=1, ignore_eos=True)
    outputs = llm.generate([TEXT, TEXT[5:], TEXT[10:], TEXT[15:]], asked)
    assert llm.engine.scheduler.preempted_prefix_cache_stats.requests
    for output in outputs:
        check_prompt_logprobs(output, hf, 1)


def test_a_stream_tells_prompt_logprobs_once(llm: LLM) -> None:
    first, *rest = llm.stream(TEXT, dataclasses.replace(GREEDY, prompt_logprobs=0))
    assert first.prompt_logprobs is not None
    assert [output.prompt_logprobs for output in rest] == [None] * len(rest)


@pytest.mark.parametrize("name", ["allowed_token_ids", "logit_bias"])
def test_ids_that_the_model_does_not_have_are_refused(llm: LLM, name: str) -> None:
    size = llm.engine.vocab_size
    values: dict[str, Any] = {"allowed_token_ids": (1, size), "logit_bias": ((size, 1.0),)}
    with pytest.raises(TokenIdOutOfRangeError, match=f"{name} has token id {size}, allowed are"):
        llm.generate(TEXT, SamplingParams(**{name: values[name]}))


@pytest.mark.parametrize(
    "options",
    [
        {"allowed_token_ids": tuple(range(2048))},
        {"bad_token_ids": tuple((*range(i, i + 15), i) for i in range(128))},
        {"stop_token_ids": tuple(range(1024)), "min_tokens": 9},
    ],
    ids=lambda options: min(options),
)
def test_long_lists_of_many_choices_take_no_more_than_their_logits(options: dict[str, Any]) -> None:
    params = SamplingParams(max_tokens=20, n=128, **options)
    ending = params.stop_token_ids
    rows = [SamplingRow(params, 0, i, 2000, (1,) * 2000, ending) for i in range(params.n)]
    scores, known = torch.zeros(128, 2048), torch.ones(128, 2000, dtype=torch.int64)
    lengths = torch.full((128, 2), 2000)

    class Sizes(TorchDispatchMode):
        largest = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            out = func(*args, **kwargs or {})
            made = [each.numel() for each in tree_leaves(out) if isinstance(each, torch.Tensor)]
            self.largest = max(self.largest, *made, 0)
            return out

    with Sizes() as sizes:
        edits = edits_of(rows, scores.device)
        process_logits(scores, edits, lengths[:, 0])
        penalise(scores, edits, known, lengths, torch.ones(3, 128))
    assert sizes.largest <= 2 * scores.numel()  # rows and token ids are two numbers
