"""One table: whatever a caller gives is taken rightly, or refused by a named error that names the
parameter.

A server catches MiniVllmError and nothing else: a bare TypeError would end it. And a refusal
changes nothing.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from mini_vllm import LLM, BeamSearchParams, EngineConfig, SamplingParams
from mini_vllm.errors import InvalidParameterError, MiniVllmError, RequestRefusedError
from mini_vllm.policies.registry import make_scheduler

PARAMS = SamplingParams(temperature=0, max_tokens=2, ignore_eos=True)
BEAMS = BeamSearchParams(2, 2)
ASK = [{"role": "user", "content": "What is a KV block?"}]
IDS = [5, 6, 7]


class Strange:
    """Raises whatever one does with it."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __index__(self) -> int:
        raise RuntimeError("no index")

    def tolist(self) -> list[int]:
        raise RuntimeError("no list")


class Row(NamedTuple):
    """A call with one argument of a wrong kind, and what the message says."""

    call: str
    value: Any
    message: str


@pytest.fixture(scope="module")
def llm() -> LLM:
    return LLM("tiny", num_kv_blocks=50)


def calls(llm: LLM) -> dict[str, Any]:
    """The public ways in, by name, each as a function of the one argument that the table varies."""
    engine = llm.engine
    return {
        "generate": lambda value: llm.generate(value, PARAMS),
        "generate a batch": lambda value: llm.generate([IDS, value], PARAMS),
        "generate with": lambda value: llm.generate([IDS, IDS], value),
        "stream": lambda value: list(llm.stream(value, PARAMS)),
        "stream with": lambda value: list(llm.stream(IDS, value)),
        "beam_search": lambda value: llm.beam_search(value, BEAMS),
        "beam_search with": lambda value: llm.beam_search(IDS, value),
        "chat": lambda value: llm.chat(value, PARAMS),
        "chat with": lambda value: llm.chat(ASK, value),
        "chat template": lambda value: llm.chat(ASK, PARAMS, chat_template=value),
        "add": lambda value: engine.add_request("a", value, PARAMS),
        "add with": lambda value: engine.add_request("a", IDS, value),
        "add as": lambda value: engine.add_request(value, IDS, PARAMS),
        "add, priority": lambda value: engine.add_request("a", IDS, PARAMS, priority=value),
        "add, arrival_time": lambda value: engine.add_request("a", IDS, PARAMS, arrival_time=value),
        "add, cache_salt": lambda value: engine.add_request("a", IDS, PARAMS, cache_salt=value),
        "abort": lambda value: engine.abort(value),
    }


def wrong_prompts() -> list[Row]:
    """Of every way in that takes prompts."""
    neither = [
        None,
        7,
        True,
        1.5,
        {5, 6},
        {"prompt": "x"},
        b"abc",
        bytearray(b"abc"),
        Strange(),
        object,
        np.int64(7),
    ]
    neither += [np.array(7), torch.tensor(7)]
    rows = [
        Row(call, value, "prompt")
        for call in ("generate", "stream", "beam_search", "add")
        for value in neither
    ]
    rows += [
        Row(call, iter(IDS), "prompt") for call in ("generate", "stream", "beam_search", "add")
    ]
    ids: list[Any] = [
        [True, False],
        [1.5, 2.5],
        [None],
        [[5], [6]],
        ["x"],
        [-1],
        [10**9],
        [2**70],
        [5, True],
        [5, "x"],
    ]
    ids += [
        np.array([True]),
        np.array([1.5]),
        torch.tensor([True]),
        torch.tensor([1.5]),
        [Strange()],
        [5, Strange()],
    ]
    ids += [np.array([[5, 6]]), np.array(["x"], dtype=object), [math.nan], [b"x"]]
    rows += [
        Row(call, value, "prompt")
        for call in ("generate a batch", "stream", "add")
        for value in ids
    ]
    texts = ["x\ud800", "\udfff"]
    rows += [
        Row(call, text, "lone surrogate")
        for call in ("generate", "stream", "beam_search", "add")
        for text in texts
    ]
    empty: list[Any] = ["", [], np.array([], dtype=np.int64)]
    return rows + [
        Row(call, value, "the prompt has 0 tokens") for call in ("stream", "add") for value in empty
    ]


ROWS = [
    *wrong_prompts(),
    *(
        Row(call, value, "sampling_params")
        for call in ("generate with", "chat with", "stream with", "add with")
        for value in (
            {},
            {"max_tokens": 3},
            "greedy",
            7,
            SamplingParams,
            BEAMS,
            [{"max_tokens": 3}] * 2,
            Strange(),
        )
    ),
    *(
        Row("generate with", value, "sampling_params")
        for value in ([], [PARAMS], [PARAMS] * 3, [PARAMS, None])
    ),
    Row("add with", None, "sampling_params must be a SamplingParams, got None"),
    *(
        Row("beam_search with", value, "params must be a BeamSearchParams")
        for value in (None, {}, PARAMS, 3)
    ),
    *(
        Row(call, value, "request_id must be a string")
        for call in ("add as", "abort")
        for value in (None, 7, b"a", ["a"], {"a"}, {}, "", ("a",), Strange(), math.nan)
    ),
    *(
        Row("add, priority", value, "priority must be")
        for value in (None, "1", 1.5, math.nan, True, [1], Strange())
    ),
    *(
        Row("add, arrival_time", value, "arrival_time must be")
        for value in (None, "1", math.nan, math.inf, True, [], 10**400)
    ),
    *(
        Row("add, cache_salt", value, "cache_salt must be")
        for value in (7, b"x", ["x"], True, math.nan, Strange())
    ),
    *(
        Row("chat", value, "messages")
        for value in (None, 7, "hello", {}, b"x", iter(ASK), [None], [[]], [7], ASK[0])
    ),
    *(
        Row("chat", [{**ASK[0], "content": value}], "content")
        for value in (None, 7, b"x", [1], "\ud800", Strange())
    ),
    *(Row("chat", [{**ASK[0], "role": value}], "role") for value in (None, 7, b"user", ["user"])),
    *(
        Row("chat template", value, "chat.template")
        for value in (7, b"x", ["x"], "{% if %}", "{{ 1 / 0 }}")
    ),
]


def check_refusal(llm: LLM, row: Row) -> None:
    with pytest.raises(MiniVllmError, match=row.message) as refusal:
        calls(llm)[row.call](row.value)
    assert len(str(refusal.value)) < 1000
    assert not llm.engine.has_unfinished_requests()
    assert llm.engine.scheduler.kv_cache_manager.num_free_blocks == 49


@pytest.mark.parametrize("call", dict.fromkeys(row.call for row in ROWS))
def test_a_wrong_argument_is_refused_by_name_and_changes_nothing(llm: LLM, call: str) -> None:
    for row in ROWS:
        if row.call == call:
            check_refusal(llm, row)
    assert len(llm.generate(IDS, PARAMS)[0].outputs[0].token_ids) == 2


@pytest.mark.parametrize(
    "prompt",
    [
        *(
            (5, 6, 7),
            range(5, 8),
            np.array(IDS),
            np.array(IDS, dtype=np.uint8),
            [np.int64(5), np.uint8(6), 7],
        ),
        *(
            torch.tensor(IDS),
            torch.tensor(IDS, dtype=torch.int32),
            list(torch.tensor(IDS)),
            memoryview(np.array(IDS)),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_integers_of_any_library_are_token_ids(llm: LLM, prompt: Any) -> None:
    (wanted,) = llm.generate(IDS, PARAMS)
    (output,) = (
        llm.generate(prompt, PARAMS)
        if not isinstance(prompt, memoryview)
        else llm.generate(list(prompt), PARAMS)
    )
    assert output.outputs == wanted.outputs
    assert output.prompt_token_ids == IDS
    assert {type(token_id) for token_id in output.prompt_token_ids} == {int}


@pytest.mark.parametrize(
    "batch",
    [np.array([IDS, IDS]), torch.tensor([IDS, IDS]), (IDS, np.array(IDS)), [IDS, tuple(IDS)]],
)
def test_a_row_of_a_matrix_is_a_prompt(llm: LLM, batch: Any) -> None:
    assert [output.prompt_token_ids for output in llm.generate(batch, PARAMS)] == [IDS, IDS]


@pytest.mark.parametrize("batch", [[], (), np.array([], dtype=np.int64)])
def test_an_empty_batch_gives_nothing(llm: LLM, batch: Any) -> None:
    assert llm.generate(batch, PARAMS) == []
    assert llm.beam_search(batch, BEAMS) == []
    assert llm.chat([]) == []


# --- parameters -----------------------------------------------------------------------------------

ODD = (
    -1,
    0,
    2**63,
    1e308,
    math.nan,
    math.inf,
    -math.inf,
    10**400,
    True,
    "1",
    None,
    [],
    {},
    b"1",
    Strange(),
    np.bool_(True),
)
SAMPLING = (
    *(
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "seed",
        "n",
        "presence_penalty",
        "frequency_penalty",
    ),
    *("repetition_penalty", "logprobs"),
)
INTEGERS = (
    *(
        "block_size",
        "num_kv_blocks",
        "kv_cache_memory_bytes",
        "max_model_len",
        "max_num_seqs",
        "num_cpu_blocks",
    ),
    *("max_num_batched_tokens", "long_prefill_token_threshold", "seed"),
)
FRACTIONS = ("gpu_memory_utilization", "watermark")
FLAGS = (
    "enable_chunked_prefill",
    "enable_prefix_caching",
    "reserve_full_sequence",
    "block_aligned_chunks",
)
NAMES = (
    "device",
    "dtype",
    "hash_function",
    "policy",
    "scheduler",
    "preemption_mode",
    "attention_backend",
    "model",
)
MAKERS: dict[str, Any] = {
    "SamplingParams": SamplingParams,
    "BeamSearchParams": lambda **options: BeamSearchParams(
        **({"beam_width": 2, "max_tokens": 2} | options)
    ),
    "EngineConfig": lambda **options: EngineConfig(**({"model": "tiny"} | options)),
}
FIELDS = [
    *(("SamplingParams", name) for name in SAMPLING),
    *(("BeamSearchParams", name) for name in ("beam_width", "max_tokens", "length_penalty")),
    *(("EngineConfig", name) for name in (*INTEGERS, *FRACTIONS)),
]


@pytest.mark.parametrize(("owner", "name"), FIELDS)
def test_a_number_is_taken_as_it_is_or_refused_by_name(owner: str, name: str) -> None:
    for value in ODD:
        check_number(owner, name, value)


def check_number(owner: str, name: str, value: Any) -> None:
    refusal = ""
    try:
        taken = getattr(MAKERS[owner](**{name: value}), name)
    except MiniVllmError as error:
        refusal = str(error)
    if refusal:
        assert name in refusal
        assert len(refusal) < 400
        return
    assert taken is value
    assert value is None or type(value) is int or (type(value) is float and math.isfinite(value))


REFUSED = [
    *(("EngineConfig", name, value) for name in FLAGS for value in ("yes", 1, 0, None, [],
       np.bool_(True), Strange())),
    *(("EngineConfig", name, value) for name in NAMES for value in (None, 7, b"cpu", ["v1"], {},
       np.array([1, 2]))),
    *(("EngineConfig", "device", value) for value in ("gpu", "cuda:", "cuda:x", "cuda:-1",
       "cuda:\u0663")),
    ("EngineConfig", "device", "cuda:99999999999"),
    *(("EngineConfig", name, "nonsense") for name in NAMES[1:6]),
    *(("EngineConfig", "model", value) for value in ("", 7, True)),
    *(("EngineConfig", "preemption_cost", value) for value in (7, "x", [1], {1: 2})),
    *(("SamplingParams", "stop", value) for value in (7, None, {}, {"x"}, iter("x"), b"x")),
    *(("SamplingParams", "stop_token_ids", value) for value in (7, None, {}, {1}, iter([1]), b"x",
       "x")),
    *(("SamplingParams", "stop", value) for value in ([7], [None], [b"x"], [""], ["x" * 10**5],
       ["x"] * 10**6)),
    *(("SamplingParams", "stop_token_ids", value) for value in ([True], ["x"], [1.5], [[1]], [-1],
       list(range(10**6)))),
    *(("SamplingParams", "repetition_penalty", value) for value in (1e-7, 1e-300, 1.1e6)),
    *(("BeamSearchParams", "early_stopping", value) for value in (1, 0, None, "always",
       np.array([1, 2]), Strange())),
    *(("BeamSearchParams", "beam_width", value) for value in (10**9, 21, 2.0)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        pytest.param(*each, marks=pytest.mark.slow if i % 3 else ())
        for i, each in enumerate(dict.fromkeys((owner, name) for owner, name, _ in REFUSED))
    ],
)
def test_a_parameter_of_the_wrong_kind_is_refused_by_name(owner: str, name: str) -> None:
    for each, which, value in REFUSED:
        if (each, which) == (owner, name):
            check_parameter(owner, name, value)


def check_parameter(owner: str, name: str, value: Any) -> None:
    with pytest.raises(MiniVllmError, match=name) as refusal:
        MAKERS[owner](**{name: value})
    assert len(str(refusal.value)) < 600


@pytest.mark.parametrize(("owner", "name"), [each for each in FIELDS if each[1] not in FRACTIONS])
def test_an_integer_of_numpy_is_an_integer(owner: str, name: str) -> None:
    value = 3 if name != "presence_penalty" and name != "frequency_penalty" else 2
    value = 1 if name in ("top_p", "min_p") else value
    for kind in (np.int64, np.uint8, np.int32):
        taken = getattr(MAKERS[owner](**{name: kind(value)}), name)
        assert taken == value
        assert type(taken) is int


def test_a_float_of_numpy_is_a_float() -> None:
    for kind in (np.float64, np.float32, np.float16):
        params = SamplingParams(temperature=kind(0.5), top_p=kind(0.25))  # type: ignore[arg-type]
        config = EngineConfig("tiny", watermark=kind(0.5))
        taken = (params.temperature, params.top_p, config.watermark)
        assert taken == (0.5, 0.25, 0.5)
        assert {type(each) for each in taken} == {float}
    taken_ids = SamplingParams(stop_token_ids=[np.int64(5), 6]).stop_token_ids  # type: ignore[arg-type]
    assert [type(token_id) for token_id in taken_ids] == [int, int]


def test_a_path_is_a_model() -> None:
    folder = Path(__file__).parents[1] / "models" / "tiny"
    assert EngineConfig(folder).model == str(folder)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        *({"num_kv_blocks": 2**31 - 1}, {"num_kv_blocks": 2**31 - 1, "block_size": 2**31 - 1}),
        *(
            {"block_size": 2**31 - 1},
            {"max_num_seqs": 2**31 - 1},
            {"max_num_batched_tokens": 2**31 - 1},
        ),
        {"num_kv_blocks": 10, "preemption_mode": "swap", "num_cpu_blocks": 2**31 - 1},
        *(
            {"max_model_len": 2**31 - 1},
            {"attention_backend": "nonsense"},
            {"model": "./no\0where"},
            {"model": "\ud800/x"},
        ),
    ],
    ids=str,
)
def test_an_engine_that_no_machine_holds_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(MiniVllmError) as refusal:
        LLM(**options)
    assert len(str(refusal.value)) < 1000


# --- schedulers -----------------------------------------------------------------------------------

SIZES = {"num_blocks": 10, "block_size": 4, "max_num_seqs": 4, "max_num_batched_tokens": 16}
OPTIONS = [
    *(
        (name, value)
        for name in SIZES
        for value in (1.5, "9", None, True, 2**63, math.nan, [], 0, -1)
    ),
    *(("max_model_len", value) for value in ("9", 1.5, 0, True)),
    *(("long_prefill_token_threshold", value) for value in ("9", 1.5, None, True)),
    *(("watermark", value) for value in ("0.1", None, True, math.nan, 1.0, [])),
    *((name, value) for name in FLAGS[:3] for value in ("yes", 1, None)),
    *(
        (name, value)
        for name in ("policy", "scheduler", "preemption_mode", "hash_function")
        for value in (None, 7, ["v1"])
    ),
    *(("preemption_cost", value) for value in (7, "x", [1])),
    ("num_cpu_blocks", "3"),
]


@pytest.mark.parametrize(
    "variant",
    [{}, {"scheduler": "sequence_group"}, {"scheduler": "warm_first"}, {"preemption_mode": "swap"}],
    ids=str,
)
def test_an_option_of_a_scheduler_is_refused_by_name(variant: dict[str, Any]) -> None:
    for name, value in OPTIONS:
        check_option(SIZES | variant | {name: value}, name)


def check_option(options: dict[str, Any], name: str) -> None:
    with pytest.raises(MiniVllmError, match=name):
        make_scheduler(options)


@pytest.mark.parametrize("options", [None, 7, [], "v1", {}, {"num_blocks": 10}])
def test_the_options_of_a_scheduler_are_a_mapping_that_has_its_sizes(options: Any) -> None:
    with pytest.raises(
        InvalidParameterError,
        match=r"options must be a mapping|(num_blocks|block_size) must be given",
    ):
        make_scheduler(options)


def test_a_scheduler_takes_numbers_of_numpy() -> None:
    scheduler = make_scheduler(
        {name: np.int64(value) for name, value in SIZES.items()} | {"watermark": np.float32(0.5)}
    )
    assert type(scheduler.max_num_seqs) is int
    assert type(scheduler.watermark) is float


def test_a_refusal_of_a_request_is_one_kind() -> None:
    """What a server answers with a 400."""
    from mini_vllm import errors

    for kind in (errors.InvalidPromptError, errors.ChatTemplateError, errors.PromptTooLongError):
        assert issubclass(kind, RequestRefusedError)
