"""Parameters are refused or obeyed, never ignored; a request is two counters."""

import dataclasses
import math
from typing import Any

import pytest

from mini_vllm.errors import (
    EmptyPromptError,
    InvalidParameterError,
    MiniVllmError,
    UnknownParameterError,
    shown,
)
from mini_vllm.params import SamplingParams, StructuredOutputs
from mini_vllm.request import FINISH_REASONS, UNFINISHED, Request, RequestStatus, until_its_end


def make_request(max_tokens: int = 16, **options: Any) -> Request:
    return Request("a", [1, 2, 3], SamplingParams(max_tokens=max_tokens), **options)


# --- SamplingParams -------------------------------------------------------------------------------


def test_defaults() -> None:
    params = SamplingParams()
    assert (params.max_tokens, params.temperature, params.top_p, params.top_k, params.min_p) == (
        16,
        1.0,
        1.0,
        0,
        0.0,
    )
    assert (params.seed, params.n, params.stop, params.stop_token_ids, params.ignore_eos) == (
        None,
        1,
        (),
        (),
        False,
    )
    assert (params.presence_penalty, params.frequency_penalty, params.repetition_penalty) == (
        0.0,
        0.0,
        1.0,
    )
    assert params.logprobs is None


ALLOWED = {
    "kv_transfer_params": (None, {}, {"do_remote_decode": True}),
    "max_tokens": (1, 10**9),
    "temperature": (0, 0.0, 0.5, 1e6),
    "top_p": (1e-9, 1, 1.0),
    "top_k": (-1, 0, 1, 10**6),
    "min_p": (0, 1),
    "seed": (None, 0, -(2**63), 2**64 - 1),
    "n": (1, 128),
    "stop": ((), ("x",), ["x", "yz"], "word", ("x",) * 64, "x" * 1024),
    "stop_token_ids": ((), (0,), [5, 7], (3,) * 1024),
    "ignore_eos": (True, False),
    "skip_special_tokens": (True, False),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2.0, 2.0),
    "repetition_penalty": (1e-6, 1e6),
    "logprobs": (None, 0, 20),
    "structured": (None, StructuredOutputs(regex="a+"), StructuredOutputs(json_object=True)),
    "output_kind": ("cumulative", "delta", "final_only"),
    "min_tokens": (0, 16),
    "logit_bias": ((), ((0, -100.0), (7, 100.0))),
    "allowed_token_ids": (None, (0,), [5, 7]),
    "bad_words": ((), ["a", "b c"], ("x" * 1024,) * 128),
    "bad_token_ids": ((), ((0,), (5, 7))),
    "include_stop_str_in_output": (True, False),
    "prompt_logprobs": (None, 0, 20),
}
REFUSED = {
    "kv_transfer_params": ("x", 1, ("do_remote_decode",), True),
    "max_tokens": (0, -1, 1.5, "1", True, None),
    "temperature": (-0.1, 2e6, math.inf, math.nan, "1", None, True),
    "top_p": (0, 1.01, -1, math.nan, None),
    "top_k": (-2, 0.5, False, None),
    "min_p": (-0.1, 1.1, math.nan),
    "seed": (-(2**63) - 1, 2**64, 1.0, "7", True),
    "n": (0, 129, 10**9, 1.0),
    "stop": ("", ("x", ""), (7,), ("x",) * 65, 7, None, ("x" * 1025,)),
    "stop_token_ids": ((-1,), (1.5,), ("x",), (True,), 7, None, (3,) * 1025),
    "ignore_eos": (None, 1, "false"),
    "skip_special_tokens": (None, 1, "false"),
    "presence_penalty": (-2.1, 2.1, math.nan, math.inf),
    "frequency_penalty": (-2.1, 2.1, "0"),
    "repetition_penalty": (0, 1e-9, 0.99e-6, -1, 2e6, math.inf, math.nan),
    "logprobs": (-1, 21, 1.0, True),
    "structured": (5, "a+", ("regex", "a+")),
    "output_kind": ("all", 1, None, "DELTA"),
    "min_tokens": (-1, 17, 1.5, None),
    "logit_bias": (
        "x",
        7,
        ((0, 101),),
        ((-1, 1.0),),
        ((0,),),
        ((0, math.nan),),
        tuple((i, 1.0) for i in range(1025)),
    ),
    "allowed_token_ids": ((), "ab", (-1,), 7),
    "bad_words": ("a", ("",), (7,), ("x",) * 129, ("x" * 1025,), None),
    "bad_token_ids": ((5,), ((),), ((-1,),), ((True,),), (("x",),), None),
    "include_stop_str_in_output": (None, 1, "false"),
    "prompt_logprobs": (-1, 21, 1.5, True),
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in ALLOWED.items() for value in values]
)
def test_a_value_within_its_limits_is_taken(name: str, value: Any) -> None:
    taken = getattr(SamplingParams(**{name: value}), name)
    assert taken == (
        (value,)
        if name == "stop" and isinstance(value, str)
        else tuple(value)
        if isinstance(value, list)
        else value
    )


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values]
)
def test_a_value_outside_its_limits_is_refused_with_its_name_and_the_value(
    name: str, value: Any
) -> None:
    with pytest.raises(InvalidParameterError, match=f"SamplingParams: {name} must be") as refusal:
        SamplingParams(**{name: value})
    taken = (value,) if name == "stop" and isinstance(value, str) else value
    assert str(refusal.value).endswith(f"got {shown(taken)}")
    assert isinstance(refusal.value, MiniVllmError)
    assert isinstance(refusal.value, ValueError)


def test_every_parameter_with_limits_is_tested() -> None:
    names = {field.name for field in dataclasses.fields(SamplingParams)}
    assert set(ALLOWED) == set(REFUSED) == names


def test_trap_62_a_parameter_that_does_not_exist_is_refused() -> None:
    with pytest.raises(
        UnknownParameterError, match=r"unknown parameter 'max_token'; did you mean 'max_tokens'\?"
    ):
        SamplingParams(max_token=5)  # type: ignore[call-arg]
    with pytest.raises(
        UnknownParameterError,
        match="unknown parameter 'zzz'; known: max_tokens, temperature, top_p",
    ):
        SamplingParams(zzz=5)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="best_of"):  # the same, as Python's own class of error
        SamplingParams(best_of=5)  # type: ignore[call-arg]


def test_biases_may_be_a_mapping() -> None:
    pairs = ((3, -1.0), (5, 2.0))
    for given in ({5: 2, 3: -1.0}, [[5, 2.0], [3, -1]], pairs):
        assert SamplingParams(logit_bias=given).logit_bias == pairs  # type: ignore[arg-type]


def test_parameters_are_frozen_and_compare_by_value() -> None:
    params = SamplingParams(stop="x", seed=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        params.seed = 4  # type: ignore[misc]
    assert params == SamplingParams(stop=("x",), seed=3)
    assert hash(params) == hash(SamplingParams(stop=["x"], seed=3))  # type: ignore[arg-type]
    assert dataclasses.replace(params, seed=4) == SamplingParams(stop="x", seed=4)
    with pytest.raises(InvalidParameterError, match="max_tokens"):
        dataclasses.replace(params, max_tokens=0)


# --- Request --------------------------------------------------------------------------------------


def test_a_new_request_is_all_behind() -> None:
    request = make_request()
    assert request.status is RequestStatus.WAITING
    assert (request.num_tokens, request.num_prompt_tokens, request.num_computed_tokens) == (3, 3, 0)
    assert (request.num_cached_tokens, request.num_preemptions, request.priority) == (0, 0, 0)
    assert (request.is_finished, request.finish_reason) == (False, None)
    assert (request.output_token_ids, request.block_hashes, request.cache_salt) == ([], [], None)


def test_the_prompt_is_copied() -> None:
    prompt = [1, 2, 3]
    request = Request("a", prompt, SamplingParams())
    prompt.append(4)
    request.append_output_token(5)
    assert request.prompt_token_ids == [1, 2, 3]
    assert request.all_token_ids == [1, 2, 3, 5]
    assert request.num_prompt_tokens == 3


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(
        EmptyPromptError, match="'a': the prompt has 0 tokens, at least 1 is needed"
    ):
        Request("a", [], SamplingParams())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("priority", value) for value in ("high", 1.5, None, True)),
        *(("arrival_time", value) for value in ("now", None, math.nan)),
        *(("cache_salt", value) for value in (7, ["x"], b"x")),
        *(("max_model_len", value) for value in (0, -1, 1.5, "9")),
    ],
)
def test_an_option_of_the_wrong_kind_is_refused(name: str, value: Any) -> None:
    """It would not fail here but in the scheduler: there one request's option would stop every
    request.
    """
    with pytest.raises(InvalidParameterError, match=f"'a': {name} must be .*, got") as refusal:
        make_request(**{name: value})
    assert str(refusal.value).endswith(f"got {value!r}")


def test_a_request_id_that_is_no_string_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="request_id must be a string, got 7"):
        Request(7, [1], SamplingParams())  # type: ignore[arg-type]


def test_trap_26_an_output_token_counts_everywhere() -> None:
    request = make_request()
    for n, token_id in enumerate((7, 8, 9), 1):
        request.append_output_token(token_id)
        assert request.num_tokens == len(request.all_token_ids) == 3 + n
        assert request.output_token_ids == [7, 8, 9][:n]
        assert request.all_token_ids == [1, 2, 3, 7, 8, 9][: 3 + n]


def test_a_request_without_outputs_is_not_finished() -> None:
    request = make_request(max_tokens=1, max_model_len=1, eos_token_ids=[3])
    assert not request.maybe_finish()
    assert request.status is RequestStatus.WAITING


@pytest.mark.parametrize(
    ("outputs", "options", "status"),
    [
        ([7], {}, None),
        ([7], {"max_tokens": 1}, "FINISHED_LENGTH"),
        ([7], {"max_model_len": 5}, None),
        ([7], {"max_model_len": 4}, "FINISHED_LENGTH"),
        ([7], {"max_model_len": 3}, "FINISHED_LENGTH"),
        ([7], {"eos_token_ids": [8, 7]}, "FINISHED_STOPPED"),
        ([7], {"eos_token_ids": [7], "max_tokens": 1}, "FINISHED_STOPPED"),
        ([7, 8], {"eos_token_ids": [7]}, None),
    ],
)
def test_the_last_token_decides_and_stop_wins_over_length(
    outputs: list[int], options: Any, status: str | None
) -> None:
    request = make_request(**options)
    for token_id in outputs:
        request.append_output_token(token_id)
    assert request.maybe_finish() == (status is not None)
    assert request.status is RequestStatus[status or "WAITING"]


def test_ignore_eos_ignores_eos_only() -> None:
    params = SamplingParams(ignore_eos=True, stop_token_ids=(8,))
    request = Request("a", [1], params, eos_token_ids=[7])
    request.append_output_token(7)
    assert not request.maybe_finish()
    request.append_output_token(8)
    assert request.maybe_finish()
    assert request.finish_reason == "stop"


def test_finish_reasons_are_the_values_of_the_finished_states() -> None:
    assert FINISH_REASONS == ("stop", "length", "abort", "error")
    for status in RequestStatus:
        request = make_request()
        request.status = status
        assert (
            request.is_finished
            == (status not in UNFINISHED)
            == (request.finish_reason in FINISH_REASONS)
        )


# --- messages -------------------------------------------------------------------------------------


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "value", [0, -1.5, "it's", b"x", None, True, [1, "a"], (1,), {"a": 1}, {3}, range(4), 10**60]
)
def test_a_short_value_is_shown_as_it_is(value: object) -> None:
    assert shown(value) == repr(value)


@pytest.mark.parametrize(
    "value",
    [
        *(
            "x" * 10**6,
            b"x" * 10**6,
            [1] * 10**6,
            {"x" * 10**6: ["x" * 10**6]},
            set(range(10**4)),
            10**4000,
            10**5000,
        ),
        *(Unshowable(), [Unshowable()] * 1000, type("x" * 10**6, (), {})()),
    ],
    ids=lambda value: type(value).__name__[:20],
)
def test_a_value_is_cut_at_200_characters(value: object) -> None:
    assert len(shown(value)) <= 200
    assert len(shown(value, 30)) <= 30


def test_a_list_of_lists_of_lists_is_not_written_out() -> None:
    """Each level names the one below a hundred times: written out it would be 10**12 items."""
    value: list[Any] = [1]
    for _ in range(6):
        value = [value] * 100
    assert shown(value).startswith("[[[...], [...],")


@pytest.mark.parametrize(
    "refused",
    [
        lambda value: SamplingParams(stop=value),
        lambda value: SamplingParams(max_tokens=value),
        lambda value: SamplingParams(**{"x" * 10**6: 1}),
        lambda value: Request("x" * 10**6, [], SamplingParams()),
        lambda value: Request("x" * 10**6, [1], SamplingParams(), priority=value),
    ],
)
def test_a_message_shows_200_characters_of_each_value(refused: Any) -> None:
    """One was 65 million characters long."""
    with pytest.raises(MiniVllmError) as refusal:
        refused(("x" * 10**6,) * 65)
    assert len(str(refusal.value)) < 1000


def test_a_request_takes_no_token_behind_its_end() -> None:
    request = Request("a", [1], SamplingParams(max_tokens=3), eos_token_ids=[0])
    for token_ids, taken in (([4, 0, 5], [4, 0]), ([4, 5, 6, 7], [4, 5, 6]), ([], []), ([0], [0])):
        assert list(until_its_end(request, token_ids)) == taken
    request.max_model_len = 3
    assert list(until_its_end(request, [4, 5, 6])) == [4, 5]
