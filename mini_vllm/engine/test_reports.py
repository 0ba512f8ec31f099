"""What users of other engines reported, on the bundled model: the right value of each."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from mini_vllm import LLM, SamplingParams
from mini_vllm.errors import GrammarError
from mini_vllm.models import checkpoint

FOLDER = Path(checkpoint.__file__).parent / "tiny"
GREEDY = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True)


@pytest.fixture(scope="module")
def llm() -> LLM:
    options: dict[str, Any] = {"num_kv_blocks": 200, "structured_outputs_backend": "automaton"}
    return LLM("tiny", device="cpu", dtype="float32", block_size=4, **options)


@pytest.fixture(scope="module")
def compiling() -> LLM:
    """Its grammars come from a library, in a process that takes a second to start."""
    return LLM("tiny", device="cpu", num_kv_blocks=20)


def run(llm: LLM, request_id: str, prompt: list[int], params: SamplingParams) -> Any:
    llm.engine.add_request(request_id, prompt, params)
    output = None
    while llm.engine.has_unfinished_requests():
        output = (llm.engine.step() or [output])[-1]
    return output


def test_prompt_logprobs_are_there_when_an_id_comes_again(llm: LLM) -> None:
    """vllm#23697, #42245: a second request under a name finds nothing that the first has left."""
    params = replace(GREEDY, prompt_logprobs=0)
    first, again = (run(llm, "a", [*range(20, 40)], params) for _ in range(2))
    assert [output.num_cached_tokens for output in (first, again)] == [0, 0]
    assert first.prompt_logprobs == again.prompt_logprobs
    assert [list(row or ()) for row in again.prompt_logprobs] == [[], *([i] for i in range(21, 40))]


def test_a_prompt_of_one_token_has_a_row(llm: LLM) -> None:
    for output_kind in ("cumulative", "final_only", "delta"):
        params = replace(GREEDY, prompt_logprobs=1, output_kind=output_kind, max_tokens=1)
        assert run(llm, "a", [20], params).prompt_logprobs == [None]
    assert run(llm, "a", [20], GREEDY).prompt_logprobs is None


def test_ids_that_the_model_does_not_have_end_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(FOLDER, folder)
    file = folder / "generation_config.json"
    config = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(config | {"eos_token_id": [7, 5000]}))
    options: dict[str, Any] = {"device": "cpu", "structured_outputs_backend": "automaton"}
    llm = LLM(str(folder), num_kv_blocks=60, **options)
    assert "eos_token_id [5000] is left out: the model has 2048 tokens" in caplog.text
    params = SamplingParams(temperature=0, max_tokens=8, min_tokens=4)
    (output,) = llm.generate([[20, 21, 22]], params)
    assert len(output.outputs[0].token_ids) >= 4
    (output,) = llm.generate([[20]], replace(params, structured={"choice": ["a"]}, min_tokens=0))
    assert output.outputs[0].text == "a"


def test_a_checkpoint_sets_what_vllm_lets_it_set(tmp_path: Path) -> None:
    """ModelConfig.get_diff_sampling_param of vLLM 0.33.0 has these nine names."""
    options: dict[str, Any] = {"temperature": 0.6, "top_p": 0.9, "top_k": 20, "min_p": 0.1}
    options |= {"repetition_penalty": 1.1, "presence_penalty": 1.5, "frequency_penalty": 0.5}
    options["skip_special_tokens"] = False
    folder = tmp_path / "model"
    shutil.copytree(FOLDER, folder)
    file = folder / "generation_config.json"
    file.write_text(json.dumps(options | {"max_new_tokens": 9}))
    llm = LLM(str(folder), device="cpu", num_kv_blocks=9)
    assert llm.default_sampling_params() == SamplingParams(max_tokens=9, **options)


@pytest.mark.parametrize("end", [{"ignore_eos": True}, {"min_tokens": 10}])
@pytest.mark.parametrize(
    ("backend", "form"),
    [
        ("automaton", {"choice": ["ab"]}),
        pytest.param("auto", {"regex": "ab"}, marks=pytest.mark.slow),
        pytest.param("auto", {"json": {"enum": ["ab"]}}, marks=pytest.mark.slow),
    ],
)
def test_a_form_ends_where_it_is_complete(
    llm: LLM, backend: str, form: dict[str, Any], end: dict[str, Any]
) -> None:
    """vllm#53665: neither min_tokens nor ignore_eos asks for what the form does not have."""
    if backend != "automaton":
        llm = LLM("tiny", device="cpu", num_kv_blocks=20)
    params = SamplingParams(temperature=0, max_tokens=20, structured=form, **end)
    (output,) = llm.generate("What is a KV block?", params)
    choice = output.outputs[0]
    assert choice.finish_reason == "stop", choice.error
    assert choice.text in ("ab", '"ab"')


WRONG_SCHEMAS = [
    *[{"type": "object", "required": wrong} for wrong in (5, "a", {"a": 1}, None)],
    *[{name: wrong} for name in ("enum", "anyOf", "allOf", "prefixItems") for wrong in (5, {})],
    *[{name: [1]} for name in ("properties", "$defs", "patternProperties")],
    *[{"type": "string", name: "x"} for name in ("minLength", "maxLength")],
    *[{"type": "array", name: wrong} for name in ("minItems", "maxItems") for wrong in ([], True)],
    *[
        {"type": "number", name: wrong}
        for name in ("minimum", "exclusiveMaximum", "exclusiveMinimum")
        for wrong in ("x", True)
    ],
    *[{"type": wrong} for wrong in (5, "banana", ["string", 5], [[]], {})],
    *[{"$ref": 5}, {"type": "string", "pattern": 5}, {"minProperties": "q"}],
    {"type": "array", "items": {"type": "object", "properties": {"a": {"required": 5}}}},
]


@pytest.mark.parametrize("schema", WRONG_SCHEMAS, ids=str)
def test_what_is_no_schema_ends_its_request_alone(compiling: LLM, schema: dict[str, Any]) -> None:
    """In the core its error would end the requests of all callers."""
    params = SamplingParams(max_tokens=4, structured={"json": schema})
    engine, outputs = compiling.engine, {}
    engine.add_request("good", [20], replace(GREEDY, max_tokens=2))
    engine.add_request("bad", [20], params)
    while engine.has_unfinished_requests():
        outputs |= {output.request_id: output.outputs[0] for output in engine.step()}
    assert re.search(r"json .* is no schema: .* is wrong", str(outputs["bad"].error))
    assert outputs["good"].finish_reason == "length"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "required": ["a", 5, [1]]},
        {"properties": {"a": 5}, "items": 5, "additionalProperties": 5, "not": "x"},
        {"const": {"a": [1, {"b": None}]}, "default": 5, "examples": 5, "title": 5},
    ],
    ids=str,
)
def test_what_only_a_library_can_refuse_ends_its_request_alone(
    compiling: LLM, schema: dict[str, Any]
) -> None:
    params = SamplingParams(max_tokens=4, structured={"json": schema})
    (output, other) = compiling.generate([[20], [21]], [params, GREEDY])
    assert output.outputs[0].finish_reason in ("error", "length", "stop")
    assert other.outputs[0].finish_reason == "length"


@pytest.mark.slow
def test_min_tokens_hold_where_a_form_goes_on(compiling: LLM) -> None:
    params = SamplingParams(max_tokens=30, min_tokens=6, structured={"regex": "[ab]*"}, seed=1)
    (output,) = compiling.generate("What is a KV block?", params)
    assert len(output.outputs[0].token_ids) >= 6


def test_a_message_names_the_causes_that_act(llm: LLM) -> None:
    params = replace(GREEDY, allowed_token_ids=[7], presence_penalty=1.0)
    (output,) = llm.generate([[20, 21]], replace(params, structured={"choice": ["ab"]}))
    message = str(output.outputs[0].error)
    assert "with presence_penalty 1.0, allowed_token_ids (7,), structured ('choice', " in message
    assert "repetition_penalty" not in message


def test_a_library_call_tells_when_things_happened() -> None:
    llm = LLM("tiny", device="cpu", num_kv_blocks=14, block_size=4, max_num_seqs=4)
    prompts = [[*range(start, start + 12)] for start in (20, 40, 60)]
    outputs = llm.generate(prompts, replace(GREEDY, max_tokens=20))
    assert sum(output.metrics.num_preemptions for output in outputs) > 0
    for output in outputs:
        metrics = output.metrics
        times = (metrics.arrival_time, metrics.scheduled_time, metrics.first_token_time)
        assert None not in times
        assert [*times] == sorted(times)  # type: ignore[type-var]


def test_parts_of_a_message_are_the_text_that_a_server_makes_of_them(llm: LLM) -> None:
    parts = [{"type": "text", "text": "What is"}, {"type": "text", "text": "a KV block?"}]
    of_parts, of_text = (
        llm.apply_chat_template([{"role": "user", "content": content}])
        for content in (parts, "What is\na KV block?")
    )
    assert of_parts == of_text


@pytest.mark.parametrize("how", ["length", "stop string", "stop token", "abort"])
def test_the_end_of_a_request_frees_its_id_before_its_caller_hears_of_it(
    llm: LLM, how: str
) -> None:
    """The caller may ask again under the same id at once."""
    engine, outputs = llm.engine, []
    (first,) = llm.generate([[20, 21]], GREEDY)
    token_ids, text = first.outputs[0].token_ids, first.outputs[0].text
    params = {
        "length": GREEDY,
        "stop string": replace(GREEDY, stop=text[len(text) // 2 :]),
        "stop token": replace(GREEDY, stop_token_ids=[token_ids[5]]),
        "abort": GREEDY,
    }[how]

    def again(output: Any) -> None:
        outputs.append(output)
        if output.finished and len(runs) < 3:
            runs.append(len(outputs))
            engine.add_request("a", [20, 21], replace(params, n=len(runs)), on_output=again)

    runs: list[int] = []
    engine.add_request("a", [20, 21], params, on_output=again)
    engine.step()
    if how == "abort":
        engine.abort("a")
    while engine.has_unfinished_requests():
        engine.step()
    ended = [output for output in outputs if output.finished]
    assert [len(output.outputs) for output in ended] == [1, 1, 2, 3]
    wanted = "abort" if how == "abort" else how.split()[0]
    assert ended[0].outputs[0].finish_reason == wanted
    last = {choice.finish_reason for output in ended[1:] for choice in output.outputs}
    assert last == {"length" if how == "abort" else wanted}
    assert llm.generate([[20, 21]], GREEDY)[0].outputs == first.outputs


def test_a_request_that_another_ones_caller_aborts_in_a_step_hears_of_nothing_later(
    llm: LLM,
) -> None:
    engine, heard = llm.engine, []

    def abort_it(output: Any) -> None:
        engine.abort("b")

    engine.add_request("a", [20, 21], GREEDY, on_output=abort_it)
    engine.add_request("b", [20, 22], GREEDY, on_output=heard.append)
    outputs = engine.step()
    assert [output.request_id for output in outputs] == ["a"]
    assert [output.outputs[0].finish_reason for output in heard] == ["abort"]
    engine.abort("a")


def test_what_cannot_be_together_ends_a_request_with_the_fields_that_are_the_cause(
    llm: LLM,
) -> None:
    params = [
        replace(GREEDY, structured={"choice": ["ab"]}, allowed_token_ids=[7]),
        replace(GREEDY, allowed_token_ids=[302], bad_words=[" block"]),
        replace(GREEDY, allowed_token_ids=[2], min_tokens=2, ignore_eos=False),
    ]
    outputs = llm.generate([[20, 21]] * 3, params)
    errors = [output.outputs[0].error for output in outputs]
    assert [type(error) for error in errors] == [GrammarError, GrammarError, type(None)]
    for error, names in zip(
        errors, (("allowed_token_ids", "structured"), ("bad_words",)), strict=False
    ):
        assert all(f"{name} " in str(error) for name in names), error
