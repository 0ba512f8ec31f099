"""LLM on the bundled model, which recites the glossary. Nonsense here means that something below is
broken.
"""

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

from mini_vllm import LLM, SamplingParams
from mini_vllm.attention import c_backend
from mini_vllm.errors import (
    EmptyPromptError,
    InvalidParameterError,
    InvalidPromptError,
    PromptTooLongError,
    RequestRefusedError,
    TokenizerMissingError,
)
from mini_vllm.models.layers import int8_linear
from mini_vllm.models.test_models import CASES, write_checkpoint
from tools.glossary import ask, glossary

GREEDY = SamplingParams(temperature=0, max_tokens=120)
ANSWER = "A KV block is a fixed-size piece of the KV cache"


@pytest.fixture(scope="module")
def llm() -> LLM:
    return LLM("tiny", dtype="float32", num_kv_blocks=2000)


@pytest.fixture(scope="module")
def prompt(llm: LLM) -> list[int]:
    return llm.apply_chat_template(ask("What is a KV block?"))


@pytest.mark.parametrize("share", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_the_bundled_model_answers_the_glossary_word_for_word(llm: LLM, share: int) -> None:
    questions = glossary()
    assert len(questions) >= 120
    questions = dict([*questions.items()][::share])
    outputs = llm.chat([ask(question) for question in questions], GREEDY)
    wrong = [
        (question, output.outputs[0].text)
        for (question, answer), output in zip(questions.items(), outputs, strict=True)
        if output.outputs[0].text != answer
    ]
    assert not wrong, wrong[:3]
    assert all(output.outputs[0].finish_reason == "stop" for output in outputs)


def test_transformers_gives_the_same_greedy_text(llm: LLM, prompt: list[int]) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = Path(__file__).parents[1] / "models" / "tiny"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    generated = model.generate(torch.tensor([prompt]), max_new_tokens=120, do_sample=False)[
        0, len(prompt) :
    ]
    theirs = tokenizer.decode(generated, skip_special_tokens=True)
    assert llm.generate(prompt, GREEDY)[0].outputs[0].text == theirs
    assert theirs.startswith(ANSWER)


def test_bfloat16_gives_the_same_text(llm: LLM, prompt: list[int]) -> None:
    half = LLM("tiny", num_kv_blocks=100)
    assert half.engine.executor.runner.kv_caches[0][0].dtype == torch.bfloat16
    assert (
        half.generate(prompt, GREEDY)[0].outputs[0].text
        == llm.generate(prompt, GREEDY)[0].outputs[0].text
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_int8_weights_give_the_same_answer_and_the_start_says_so(
    dtype: str, llm: LLM, prompt: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "mini_vllm"):
        quantized = LLM("tiny", dtype=dtype, device="cpu", num_kv_blocks=100, quantization="int8")
    assert f"tiny: torch.{dtype} on cpu, int8 weights, attention" in caplog.text
    assert (
        quantized.generate(prompt, GREEDY)[0].outputs[0].text
        == llm.generate(prompt, GREEDY)[0].outputs[0].text
    )


def test_the_start_says_why_int8_weights_are_slow(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(int8_linear, "load_kernels", lambda: "no compiler")
    with caplog.at_level("INFO", "mini_vllm"):
        LLM("tiny", device="cpu", num_kv_blocks=8, quantization="int8")
    assert "int8 weights (slow: no compiler), attention" in caplog.text


def test_an_unknown_quantization_is_refused_by_name() -> None:
    with pytest.raises(
        InvalidParameterError, match=r"quantization must be one of \(None, 'int8'\), got 'awq'"
    ):
        LLM("no such model", quantization="awq")


def test_results_are_in_the_order_of_the_prompts_with_params_of_their_own(
    llm: LLM, prompt: list[int]
) -> None:
    params = [dataclasses.replace(GREEDY, max_tokens=n, ignore_eos=True) for n in (9, 3, 6)]
    outputs = llm.generate([prompt, "What is a token?", prompt[:5]], params)
    assert [len(output.outputs[0].token_ids) for output in outputs] == [9, 3, 6]
    assert outputs[1].prompt == "What is a token?"
    assert llm.engine.tokenizer is not None
    assert outputs[1].prompt_token_ids == llm.engine.tokenizer.encode("What is a token?")


def test_one_prompt_as_text_and_as_ids(llm: LLM) -> None:
    (as_text,) = llm.generate("preemption", GREEDY)
    (as_ids,) = llm.generate(as_text.prompt_token_ids, GREEDY)
    assert as_text.outputs == as_ids.outputs


def test_no_sampling_params_means_the_generation_config(llm: LLM, prompt: list[int]) -> None:
    defaults = llm.default_sampling_params()
    assert (defaults.temperature, defaults.max_tokens) == (0.0, 256)
    assert llm.generate(prompt)[0].outputs == llm.generate(prompt, defaults)[0].outputs


def test_streamed_pieces_join_to_the_whole(llm: LLM, prompt: list[int]) -> None:
    whole = llm.generate(prompt, dataclasses.replace(GREEDY, logprobs=1))[0].outputs[0]
    pieces = [
        output.outputs[0] for output in llm.stream(prompt, dataclasses.replace(GREEDY, logprobs=1))
    ]
    assert "".join(piece.text for piece in pieces) == whole.text
    assert [token for piece in pieces for token in piece.token_ids] == whole.token_ids
    assert [each for piece in pieces for each in piece.logprobs or ()] == whole.logprobs
    assert [piece.finish_reason for piece in pieces[:-1]] == [None] * (len(pieces) - 1)
    assert pieces[-1].finish_reason == "stop"
    assert len(pieces) > 10


def test_streams_run_side_by_side_and_a_closed_one_is_aborted(llm: LLM, prompt: list[int]) -> None:
    whole = llm.generate(prompt, GREEDY)[0].outputs[0].text
    first, second = llm.stream(prompt, GREEDY), llm.stream(prompt, GREEDY)
    texts = ["", ""]
    for pair in itertools.zip_longest(first, second):
        for i, output in enumerate(pair):
            if output is not None and output.outputs:
                texts[i] += output.outputs[0].text
    assert texts == [whole, whole]
    third = llm.stream(prompt, GREEDY)
    next(third)
    assert llm.engine.has_unfinished_requests()
    third.close()
    assert not llm.engine.has_unfinished_requests()


def test_a_stream_beside_a_generate_sees_everything_once(llm: LLM, prompt: list[int]) -> None:
    params = dataclasses.replace(GREEDY, logprobs=1)
    whole = llm.generate(prompt, params)[0].outputs[0]
    stream = llm.stream(prompt, params)
    pieces = [next(stream).outputs[0]]
    llm.generate(prompt, dataclasses.replace(GREEDY, max_tokens=7, ignore_eos=True))
    rest = [output.outputs[0] for output in stream]
    pieces += rest
    assert "".join(piece.text for piece in pieces) == whole.text
    assert [token for piece in pieces for token in piece.token_ids] == whole.token_ids
    assert [each for piece in pieces for each in piece.logprobs or ()] == whole.logprobs


@pytest.mark.parametrize("stop", ["piece of the KV", ".", "A"])
def test_trap_32_the_text_ends_before_the_stop_string(
    llm: LLM, prompt: list[int], stop: str
) -> None:
    whole = llm.generate(prompt, GREEDY)[0].outputs[0].text
    choice = llm.generate(prompt, dataclasses.replace(GREEDY, stop=stop))[0].outputs[0]
    assert choice.text == whole[: whole.index(stop)]
    assert choice.finish_reason == "stop"
    shown = ""
    for output in llm.stream(prompt, dataclasses.replace(GREEDY, stop=(stop, "never"))):
        shown += "".join(choice.text for choice in output.outputs)
        assert whole.startswith(shown)
        assert stop not in shown
    assert shown == choice.text
    assert not llm.engine.has_unfinished_requests()


def test_logprobs_are_those_of_the_choice(llm: LLM, prompt: list[int]) -> None:
    choice = llm.generate(prompt, dataclasses.replace(GREEDY, logprobs=3, max_tokens=5))[0].outputs[
        0
    ]
    assert choice.logprobs is not None
    for token_id, logprobs in zip(choice.token_ids, choice.logprobs, strict=True):
        assert len(logprobs) == 3
        assert logprobs[token_id].rank == 1
        assert logprobs[token_id].logprob == max(each.logprob for each in logprobs.values())
    assert (
        "".join(
            lp[t].decoded_token or ""
            for t, lp in zip(choice.token_ids, choice.logprobs, strict=True)
        )
        in ANSWER
    )


def test_choices_of_one_prompt(llm: LLM, prompt: list[int]) -> None:
    (output,) = llm.generate(prompt, SamplingParams(temperature=3.0, seed=1, n=3, max_tokens=12))
    assert [choice.index for choice in output.outputs] == [0, 1, 2]
    assert len({choice.text for choice in output.outputs}) == 3


def test_a_conversation_and_its_prefix(llm: LLM) -> None:
    system = {
        "role": "system",
        "content": "You are a helpful assistant for people who read about engines.",
    }
    conversation = [system, *ask("What is preemption?")]
    (first,) = llm.chat(conversation, GREEDY)
    conversation += [
        {"role": "assistant", "content": first.outputs[0].text},
        *ask("What is a KV block?"),
    ]
    (second,) = llm.chat(conversation, GREEDY)
    assert second.outputs[0].text.startswith(ANSWER)
    assert second.num_cached_tokens >= len(first.prompt_token_ids) // 16 * 16


def test_a_refused_prompt_leaves_nothing_behind(llm: LLM, prompt: list[int]) -> None:
    with pytest.raises(EmptyPromptError):
        llm.generate([prompt, []], GREEDY)
    with pytest.raises(InvalidParameterError, match="2 prompts need as many"):
        llm.generate([prompt, prompt], [GREEDY])
    assert not llm.engine.has_unfinished_requests()
    assert llm.generate([], GREEDY) == []


def test_a_checkpoint_without_tokenizer_works_with_token_ids(checkpoint: Path) -> None:
    llm = LLM(str(checkpoint), num_kv_blocks=50)
    assert len(llm.generate([1, 2, 3], GREEDY)[0].outputs[0].token_ids) > 0
    with pytest.raises(TokenizerMissingError, match="no chat template"):
        llm.chat(ask("hello"))


# --- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("template", ["{{ 'a' * 10**7 }}", "{{ 1 / 0 }}"])
def test_a_chat_template_has_limits_and_the_next_conversation_works(
    llm: LLM, template: str
) -> None:
    with pytest.raises(RequestRefusedError, match="the chat template"):
        llm.chat(ask("What is a KV block?"), GREEDY, chat_template=template)
    assert not llm.engine.has_unfinished_requests()
    assert llm.chat(ask("What is a KV block?"), GREEDY)[0].outputs[0].text.startswith(ANSWER)


def test_a_conversation_becomes_the_tokens_of_transformers(llm: LLM) -> None:
    conversation = [{"role": "system", "content": "Be brief. é日👍"}, *ask("What is a token?")]
    theirs = llm.engine.tokenizer.apply_chat_template(
        conversation, add_generation_prompt=True, return_dict=False
    )
    assert llm.apply_chat_template(conversation) == theirs


def test_ten_megabytes_are_refused_before_they_are_tokenised(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took 13 seconds to find out how many tokens too many they are."""
    monkeypatch.setattr(
        type(llm.engine.tokenizer), "encode", lambda *_, **__: pytest.fail("the text was tokenised")
    )
    with pytest.raises(
        PromptTooLongError, match=r"the prompt has 10000000 characters, at most .* fit"
    ):
        llm.generate("all work " * 10**6 + "x" * 10**6)
    with pytest.raises(PromptTooLongError, match=r"the prompt has .* characters, at most .* fit"):
        llm.chat(ask("all work " * 10**5))
    assert not llm.engine.has_unfinished_requests()


def test_too_many_token_ids_are_refused_before_a_request_is_made_for_each_choice(
    llm: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "mini_vllm.frontend.front.Request", lambda *_, **__: pytest.fail("a request was made")
    )
    with pytest.raises(PromptTooLongError, match="the prompt has 1000000 tokens, at most 2048 fit"):
        llm.generate([1] * 10**6, SamplingParams(n=128))


@pytest.mark.parametrize("temperature", [5e-324, 9.9e-6, 1e-5, 1e6])
@pytest.mark.parametrize("repetition_penalty", [1e-6, 1e6])
@pytest.mark.parametrize("penalty", [-2, 2])
def test_at_its_limits_no_parameter_overflows(
    llm: LLM, prompt: list[int], temperature: float, repetition_penalty: float, penalty: float
) -> None:
    params = SamplingParams(
        temperature=temperature,
        repetition_penalty=repetition_penalty,
        presence_penalty=penalty,
        frequency_penalty=penalty,
        top_p=5e-324,
        min_p=5e-324,
        top_k=2**63,
        max_tokens=4,
        ignore_eos=True,
    )
    assert len(llm.generate(prompt, params)[0].outputs[0].token_ids) == 4


def test_a_prompt_that_the_tokenizer_cannot_read_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A vocabulary without [UNK], for instance: tokenizers raises an Exception without a class of
    its own.
    """
    llm = LLM("tiny")

    def encode(*args: Any, **options: Any) -> list[int]:
        raise Exception("WordLevel error: Missing [UNK] token from the vocabulary")

    monkeypatch.setattr(llm.engine.tokenizer, "encode", encode)
    with pytest.raises(
        InvalidPromptError, match=r"the tokenizer of tiny cannot read it: .*Missing \[UNK\]"
    ):
        llm.generate("hello")
    assert not llm.engine.has_unfinished_requests()


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        ("auto", "attention torch (not c, which is faster: no compiler)"),
        ("torch", "attention torch\n"),
    ],
)
def test_the_start_says_why_the_fastest_attention_does_not_run(
    backend: str, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(c_backend, "load_kernels", lambda dtype: "no compiler")
    with caplog.at_level("INFO", "mini_vllm"):
        LLM("tiny", device="cpu", num_kv_blocks=8, attention_backend=backend)
    assert said in caplog.text


def test_the_long_factors_of_longrope_are_asked_for_by_the_length(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Texts on either side of the original context give the tokens of transformers, each with the
    max_model_len that is meant for it.
    """
    theirs = write_checkpoint(tmp_path, CASES["phi3-longrope-part-of-each-head"])
    for length, max_model_len in ((50, None), (80, 200)):
        llm = LLM(str(tmp_path), device="cpu", num_kv_blocks=20, max_model_len=max_model_len)
        assert llm.engine.scheduler.max_model_len == (max_model_len or 64)
        prompt = [3 + i * 7 % 120 for i in range(length)]
        params = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
        (output,) = llm.generate(prompt, params)
        expected = theirs.generate(torch.tensor([prompt]), max_new_tokens=6, eos_token_id=None)
        assert output.outputs[0].token_ids == expected[0, length:].tolist()
        assert ("a text of at most 64 tokens gets other tokens" in caplog.text) == (length > 64)
    with pytest.raises(InvalidParameterError, match="300 exceeds the model's 256 positions"):
        LLM(str(tmp_path), device="cpu", max_model_len=300)
