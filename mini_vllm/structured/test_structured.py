"""What is written has the form that was asked for; what cannot be asked for is refused by name, and
ends alone.

The bundled model writes nonsense under a mask, so the mask does all the work. Draws are at
temperature 1.
"""

import itertools
import json
import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, ClassVar

import jsonschema
import pydantic
import pytest

pytest.importorskip("torch")
pytest.importorskip("xgrammar")
pytest.importorskip("llguidance")

from mini_vllm import LLM, SamplingParams
from mini_vllm.engine.core_factory import load_vocabulary
from mini_vllm.errors import GrammarError, InvalidParameterError, UnknownParameterError
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.params import StructuredOutputs
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler, SchedulerOutput
from mini_vllm.structured import backends
from mini_vllm.structured import compiler as compiler_module
from mini_vllm.structured.compiler import BoundedCache, GrammarCompiler
from mini_vllm.structured.sandbox.fair_threads import FairThreads, TurnOverError
from mini_vllm.structured.scheduler import GrammarGate
from mini_vllm.structured.schema import (
    MAX_BRANCHES,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_VALUES,
    calls_schema,
    xgrammar_would_ignore,
)
from mini_vllm.structured.subschemas import check_ends

PROMPT = "A KV block is"


@pytest.fixture(scope="module")
def engines() -> Iterator[Callable[[str], LLM]]:
    """One engine for each back end, made when it is asked for."""
    made: dict[str, LLM] = {}

    def get(backend: str) -> LLM:
        if backend not in made:
            made[backend] = LLM(
                "tiny", device="cpu", num_kv_blocks=2000, structured_outputs_backend=backend
            )
        return made[backend]

    yield get
    for llm in made.values():
        llm.engine.shutdown()


@pytest.fixture(params=["auto", "guidance"])
def llm(request: pytest.FixtureRequest, engines: Callable[[str], LLM]) -> LLM:
    return engines(request.param)


@pytest.fixture
def auto(engines: Callable[[str], LLM]) -> LLM:
    return engines("auto")


def write(llm: LLM, structured: Any, *, seeds: Sequence[int] = (1, 2), **options: Any) -> list[Any]:
    """One choice for each seed."""
    params = [
        SamplingParams(
            **{
                "temperature": 1.0,
                "max_tokens": 120,
                "seed": seed,
                "structured": structured,
                **options,
            }
        )
        for seed in seeds
    ]
    return [output.outputs[0] for output in llm.generate([PROMPT] * len(params), params)]


class Person(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    name: str = pydantic.Field(max_length=10)
    age: int = pydantic.Field(ge=0, le=150)
    is_kind: bool | None


FORMS: dict[str, tuple[Any, Callable[[str], Any]]] = {
    "model": (Person, Person.model_validate_json),
    "schema": ({"json": Person.model_json_schema()}, Person.model_validate_json),
    "text of a schema": (
        {"json": json.dumps(Person.model_json_schema())},
        Person.model_validate_json,
    ),
    "pattern": (
        {"json": {"type": "string", "pattern": '^["\\\\\n]{3}$'}},
        lambda text: len(json.loads(text)) == 3,
    ),
    "regex": ({"regex": r"[a-c]{3}-\d{2}(x|yz)?"}, partial(re.fullmatch, r"[a-c]{3}-\d{2}(x|yz)?")),
    "choice": (
        {"choice": ['a "b"', "ü\n", "a\\", "a"]},
        lambda text: text in ('a "b"', "ü\n", "a\\", "a"),
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_text_has_the_form_that_is_asked_for(llm: LLM, name: str) -> None:
    structured, holds = FORMS[name]
    for choice in write(llm, structured):
        assert choice.finish_reason == "stop", choice
        assert holds(choice.text), choice.text


def test_a_grammar_is_ebnf_or_lark(llm: LLM) -> None:
    lark = {"grammar": 'start: "<" start ">" | /[ab]+/ | "::=" start'}
    ebnf = {"grammar": 'root ::= "<" root ">" | [ab]+'}
    for structured in (
        [lark] if llm.engine.config.structured_outputs_backend == "guidance" else [lark, ebnf]
    ):
        for choice in write(llm, structured):
            assert re.fullmatch(r"[<:=]*[ab]+>*", choice.text)
            assert choice.finish_reason == "length" or choice.text.count("<") == choice.text.count(
                ">"
            )


def test_a_json_object_is_an_object(llm: LLM) -> None:
    for choice in write(llm, {"json_object": True}, seeds=range(4)):
        assert choice.text.startswith("{")
        assert choice.finish_reason == "length" or isinstance(json.loads(choice.text), dict)


# --- schemas --------------------------------------------------------------------------------------


def random_schema(rng: random.Random, depth: int = 0) -> dict[str, Any]:
    """A schema whose texts are short, of the keywords of draft 2020-12 that one of the back ends
    takes.
    """
    inner = partial(random_schema, rng, depth + 1)
    low = rng.randint(-20, 20)
    kinds: list[Callable[[], dict[str, Any]]] = [
        lambda: {"type": "integer", "minimum": low, "maximum": low + rng.randint(0, 500)},
        lambda: {
            "type": "integer",
            "exclusiveMinimum": low,
            "exclusiveMaximum": low + rng.randint(3, 90),
        },
        lambda: {
            "type": "integer",
            "multipleOf": rng.choice((2, 3, 7)),
            "minimum": 0,
            "maximum": 300,
        },
        lambda: {"type": "number", "minimum": low, "maximum": low + rng.choice((1, 2.5, 30))},
        lambda: {"type": "number", "multipleOf": 0.5, "minimum": low, "maximum": low + 9},
        lambda: {"type": "string", "minLength": rng.randint(0, 2), "maxLength": rng.randint(2, 9)},
        lambda: {
            "type": "string",
            "pattern": rng.choice(("^[a-z]{1,4}$", "^a+b?$", r"^\d{2}:\d{2}$", "^(foo|bar)$")),
        },
        lambda: {"type": "string", "format": rng.choice(("date", "uuid", "ipv4", "time"))},
        lambda: {"type": rng.choice(("boolean", "null"))},
        lambda: {
            "enum": rng.sample([1, "a", None, True, 2.5, [1], {"b": 0}, "ü"], rng.randint(1, 4))
        },
        lambda: {"type": "string", "enum": rng.sample(["red", "green", "blue"], 2)},
        lambda: {"const": rng.choice((3, "x", None, [1, 2]))},
        lambda: {"type": ["integer", "null"], "minimum": 0, "maximum": 99},
        lambda: {"$ref": "#/$defs/point"},
    ]
    nested: list[Callable[[], dict[str, Any]]] = [
        lambda: random_object(rng, inner),
        lambda: random_object(rng, inner),
        lambda: {"type": "array", "items": inner(), "minItems": (n := rng.randint(0, 2)),
        "maxItems": n + 1},
        lambda: {"type": "array", "prefixItems": [inner(), inner()], "items": False, "minItems": 2},
        lambda: {"anyOf": [inner(), inner()]},
        lambda: {"allOf": [{"type": "integer", "minimum": low}, {"maximum": low + 9}]},
        lambda: {"oneOf": [{"type": "boolean"}, {"type": "string", "maxLength": 3}]},
        lambda: {
            "type": "object", "additionalProperties": False, "minProperties": 1, "maxProperties": 2,
            "patternProperties": {"^k[0-9]$": {"type": "integer", "minimum": 0, "maximum": 9}},
        },
    ]  # fmt: skip
    schema = rng.choice(nested if depth == 0 or (depth < 3 and rng.random() < 0.35) else kinds)()
    if depth == 0:
        schema["$defs"] = {
            "point": {"type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"]}
        }
        schema["$defs"]["point"]["additionalProperties"] = False
    return schema


def random_object(rng: random.Random, inner: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    names = rng.sample(["a", "b c", "ü", 'q"', "d", "e"], rng.randint(1, 4))
    required = rng.sample(names, rng.randint(0, len(names)))
    more = {"additionalProperties": False} if rng.random() < 0.9 else {}  # open ones may be long
    return {
        "type": "object",
        "properties": {name: inner() for name in names},
        "required": required,
        **more,
    }


def not_valid(llm: LLM, numbers: Sequence[int], seeds: int) -> tuple[list[str], int, int]:
    """What does not validate; how many texts came to their end, and how many schemas were
    refused.
    """
    wrong, num_whole, num_refused = [], 0, 0
    schemas = [random_schema(random.Random(number)) for number in numbers]
    jobs = [(schema, seed) for schema in schemas for seed in range(seeds)]
    params = [
        SamplingParams(
            temperature=1.0, max_tokens=400, seed=seed, structured=StructuredOutputs(json=schema)
        )
        for schema, seed in jobs
    ]
    for (schema, seed), output in zip(
        jobs, llm.generate([PROMPT] * len(jobs), params), strict=True
    ):
        choice = output.outputs[0]
        num_refused += isinstance(choice.error, GrammarError)
        num_whole += choice.finish_reason == "stop"
        try:
            if choice.finish_reason == "stop":
                jsonschema.Draft202012Validator(schema).validate(json.loads(choice.text))
            elif choice.finish_reason == "error" and not isinstance(choice.error, GrammarError):
                raise choice.error
        except Exception as error:
            wrong.append(
                f"{json.dumps(schema)} seed {seed}: {choice.text[:200]!r}: {str(error)[:200]}"
            )
    return wrong, num_whole, num_refused


def test_outputs_validate(auto: LLM) -> None:
    wrong, num_whole, num_refused = not_valid(auto, range(40), seeds=1)
    assert not wrong, "\n".join(wrong)
    assert num_whole >= 36
    assert num_refused == 0


@pytest.mark.nightly
def test_outputs_validate_at_length(llm: LLM) -> None:
    wrong, num_whole, num_refused = not_valid(llm, range(100, 600), seeds=3)
    assert not wrong, "\n".join(wrong)
    assert num_whole >= 1400, (num_whole, num_refused)
    assert num_refused <= 15


CONTROLS = (b"\t", b"\0", b"\x1f")


@pytest.mark.parametrize("keyword", ["maxLength", "minLength"])
def test_a_model_that_likes_control_characters_writes_none_into_a_string(
    auto: LLM, keyword: str
) -> None:
    """From a report: xgrammar allows a raw tab below maxLength, and json.loads refuses it."""
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 8} | {keyword: 2}},
        "required": ["a"],
    }
    controls = [
        i for i, data in enumerate(load_vocabulary("tiny", 2048).token_bytes) if data in CONTROLS
    ]
    assert len(controls) == len(CONTROLS)
    for token_id in controls:
        choice = write(auto, {"json": schema}, seeds=[1], logit_bias={token_id: 30.0})[0]
        assert choice.finish_reason == "stop"
        jsonschema.validate(json.loads(choice.text), schema)


# --- beside other requests ------------------------------------------------------------------------


def test_a_request_whose_grammar_fails_ends_alone(auto: LLM) -> None:
    params = [
        SamplingParams(temperature=1.0, seed=seed, max_tokens=12, ignore_eos=True)
        for seed in range(3)
    ]
    expected = [output.outputs[0].token_ids for output in auto.generate([PROMPT] * 3, params)]
    bad = [
        SamplingParams(max_tokens=12, structured={"json": {"not": {"type": "null"}}}),
        # nothing is left to sample
        SamplingParams(max_tokens=12, structured={"regex": "ab"}, allowed_token_ids=[7]),
    ]
    outputs = [output.outputs[0] for output in auto.generate([PROMPT] * 5, [*bad, *params])]
    assert [choice.finish_reason for choice in outputs] == ["error"] * 2 + ["length"] * 3
    assert [choice.token_ids for choice in outputs[2:]] == expected
    assert isinstance(outputs[0].error, GrammarError)
    assert "request 'llm-" in str(outputs[0].error)
    assert 'Unimplemented keys: ["not"]' in str(outputs[0].error)
    assert "the largest logit" in str(outputs[1].error)
    kv = auto.engine.scheduler.kv_cache_manager
    assert kv.num_free_blocks == kv.num_usable_blocks


class Drafting(Scheduler):
    """Drafts for each running request: its last token once more, then what the tiny model is fond
    of.
    """

    def schedule(self) -> SchedulerOutput:
        self.drafts = {
            request.request_id: [request.all_token_ids[-1], 9, 9]
            for request in self.running
            if request.num_tokens - request.num_computed_tokens == 1
        }
        output = super().schedule()
        output.drafts = self.drafts
        return output

    def _target(self, request: Any) -> int:
        return request.num_tokens + len(self.drafts.get(request.request_id, ()))

    def update_from_output(self, output: Any, sampled_token_ids: Any) -> Any:
        for request in output.scheduled_requests:
            if token_ids := sampled_token_ids.get(request.request_id):
                count = request.num_tokens - request.num_computed_tokens + len(token_ids) - 1
                output.num_scheduled_tokens[request.request_id] = count
        return super().update_from_output(output, sampled_token_ids)


@pytest.mark.parametrize(
    "name",
    ["drafts", *(pytest.param(name, marks=pytest.mark.slow) for name in ("tight", "choices"))],
)
def test_the_tokens_are_those_of_a_request_alone(auto: LLM, name: str) -> None:
    """Preempted, in chunks, behind drafts, or as one of n choices."""
    structured = [{"regex": r"(aab|ba){4,9}-\d{3}"}, {"json": Person.model_json_schema()}, None]
    params = [
        SamplingParams(
            temperature=1.0, seed=i, max_tokens=60, structured=each, n=2 if name == "choices" else 1
        )
        for i, each in enumerate(structured)
    ]
    expected = [
        [c.token_ids for c in auto.generate([PROMPT], [each])[0].outputs] for each in params
    ]
    options: dict[str, Any] = {
        "drafts": {"scheduler_cls": Drafting},
        "tight": {"num_kv_blocks": 18, "max_num_batched_tokens": 4},
        "choices": {"scheduler": "sequence_group"},
    }[name]
    llm = LLM("tiny", device="cpu", **{"num_kv_blocks": 60, "block_size": 4} | options)
    # no process of its own
    llm.engine._factory.grammars._compiled = auto.engine._factory.grammars._compiled
    outputs = llm.generate([PROMPT] * 3, params)
    assert [[c.token_ids for c in output.outputs] for output in outputs] == expected
    if name == "tight":
        assert llm.engine.scheduler.preempted_prefix_cache_stats.requests > 0


def test_others_go_on_while_a_grammar_is_compiled(
    auto: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grammar that is not there until the other requests have ended, and the steps between hold
    up none.
    """
    compiler = auto.engine._factory.grammars
    future: Future[Any] = Future()
    expected = (
        auto.generate([PROMPT], [SamplingParams(temperature=0, max_tokens=20)])[0]
        .outputs[0]
        .token_ids
    )
    ready = compiler.compile(StructuredOutputs(regex="[ab]{3}")).result()
    monkeypatch.setattr(compiler, "compile", lambda wanted, salt: future)
    engine, order = auto.engine, []
    for name, structured in (("slow", {"regex": "[ab]{3}"}), ("other", None)):
        params = SamplingParams(temperature=0, max_tokens=20, structured=structured)
        engine.add_request(name, PROMPT, params)
    while engine.has_unfinished_requests():
        for output in engine.step():
            if output.finished:
                order.append((output.request_id, output.outputs[0].token_ids))
                if len(order) == 1:
                    assert engine.step() == []  # nothing can be computed, and that is no stall
                    future.set_result(ready)
    assert [name for name, _ in order] == ["other", "slow"]
    assert order[0][1] == expected


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("structured", "error", "text"),
    [
        ({}, InvalidParameterError, "must be one of json, regex"),
        ({"regex": "a", "choice": ["b"]}, InvalidParameterError, r"got \['regex', 'choice'\]"),
        ({"regex": ""}, InvalidParameterError, "regex must be a text"),
        ({"choice": []}, InvalidParameterError, "choice must be a list of texts"),
        ({"json": 5}, InvalidParameterError, "json must be an object or a bool, got 5"),
        ({"json": "{"}, InvalidParameterError, "json must be a JSON schema"),
        ({"json": {"const": float("nan")}}, InvalidParameterError, "json must be a JSON schema"),
        ({"json_object": 1}, InvalidParameterError, "json_object must be True"),
        ({"jsn": {}}, UnknownParameterError, "did you mean 'json'"),
        (5, InvalidParameterError, "structured must be StructuredOutputs"),
    ],
)
def test_what_is_no_form_is_refused_at_once(
    structured: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        SamplingParams(structured=structured)


def nested(depth: int) -> dict[str, Any]:
    return {"type": "array", "items": nested(depth - 1)} if depth > 1 else {"type": "null"}


@pytest.mark.parametrize(
    ("structured", "text"),
    [
        (
            {"regex": "a" * (MAX_BYTES + 1)},
            f"regex has {MAX_BYTES + 1:,} bytes, at most {MAX_BYTES:,}",
        ),
        (
            {"choice": [str(i) for i in range(MAX_VALUES + 1)]},
            f"choice has {MAX_VALUES + 1:,} texts",
        ),
    ],
)
def test_what_is_too_large_to_be_read_is_refused_at_sight(
    auto: LLM, structured: Any, text: str
) -> None:
    with pytest.raises(GrammarError, match=text):
        auto.generate([PROMPT], [SamplingParams(structured=structured)])


MANY_LENGTHS = [{"type": "string", "maxLength": length} for length in range(500)]
MANY_OPTIONAL = {
    "type": "object",
    "additionalProperties": False,
    "properties": {f"p{i}": {} for i in range(800)},
}


@pytest.mark.parametrize(
    ("structured", "text"),
    [
        ({"json": {"enum": [*range(20_000)]}}, f"20,000 values in enums, at most {MAX_VALUES:,}"),
        (
            {"json": nested(MAX_DEPTH + 1)},
            f"{MAX_DEPTH + 1} levels of schemas, at most {MAX_DEPTH}",
        ),
        (
            {"json": {"anyOf": [{}] * (MAX_BRANCHES + 1)}},
            f"alternatives and properties, at most {MAX_BRANCHES:,}",
        ),
        *(
            ({"regex": regex}, f"{part!r} is wrong, or read in several ways")
            for regex, part in (
                ("foo**", "**"),
                ("foo\\", "\\"),
                ("a*+a", "*+"),
                ("a{2}{3}", "}{"),
                ("[[a]]", "["),
                ("[[:alpha:]]", "["),
                ("x[a-z&&[^b]]", "["),
                ("[a-z--b]", "["),
                ("[", "["),
            )
        ),
        (
            {"json": {"const": 2**63}},
            "const of more than 64 bits, which xgrammar would ignore and 9223372036854775808",
        ),
        (
            {"json": {"const": 2**53 + 1, "minimum": 0}},
            "9007199254740993, which guidance would round",
        ),
        ({"json": {"type": "string", "pattern": "foo**"}}, "several ways"),
        ({"json": {"patternProperties": {"[a&&b]": {}}}}, "several ways"),
        ({"json": {"not": {"type": "null"}}}, 'Unimplemented keys: ["not"]'),
        ({"json": {"type": "array", "uniqueItems": True}}, 'Unimplemented keys: ["uniqueItems"]'),
        ({"json": {"type": "array", "contains": {}}}, 'Unimplemented keys: ["contains"]'),
        ({"json": {"if": {}, "then": {}}}, 'Unimplemented keys: ["if", "then"]'),
        ({"json": {"type": "string", "pattern": "a(?=b)"}}, "look-around"),
        ({"json": {"type": "string", "format": "zzz"}}, "Unknown format: zzz"),
        ({"json": {"$ref": "#/$defs/nothing"}}, "/$defs/nothing"),
        (
            {
                "json": {
                    "oneOf": [
                        {"type": "object", "properties": {name: {}}, "required": [name]}
                        for name in "ab"
                    ]
                }
            },
            "oneOf constraints are not supported",
        ),
        ({"json": False}, "Schema 'false' cannot accept any value"),
        ({"json": {"anyOf": []}}, "anyOf is empty"),
        ({"json": {"type": []}}, "Unsatisfiable schema"),
        ({"json": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}, "needs itself"),
        ({"json": calls_schema([{"name": "f", "parameters": {"$ref": "#"}}], 1)}, "needs itself"),
        *(
            ({"json": {"type": "object", "properties": {"a": schema}}}, "needs itself")
            for schema in (
                {"$ref": "#/properties/a"},
                {
                    "type": "object",
                    "properties": {"b": {"$ref": "#/properties/a"}},
                    "required": ["b"],
                },
                {"type": "array", "items": {"$ref": "#/properties/a"}, "minItems": 1},
                {"allOf": [{"$ref": "#/properties/a"}, {}]},
                {"anyOf": [{"$ref": "#/properties/a"}, False]},
                {
                    "type": "object",
                    "additionalProperties": {"$ref": "#/properties/a"},
                    "required": ["z"],
                },
                {
                    "type": "object",
                    "patternProperties": {"^z": {"$ref": "#/properties/a"}},
                    "required": ["z"],
                },
            )
        ),
        (
            {
                "json": {
                    "type": "object",
                    "properties": {"k1": {}},
                    "patternProperties": {"^k1$": {}},
                    "additionalProperties": False,
                }
            },
            "the patterns ['^k1$'] allow declared properties alone",
        ),
        ({"grammar": "start: <|im_end|>"}, "guidance: the library breaks at it"),
        ({"grammar": "root ::= root"}, "it allows no text"),
        ({"grammar": "start: start"}, "its grammar allows no text"),
        pytest.param(
            {"json": {"type": "integer", "minimum": 10**19, "maximum": 10**20}},
            "Integer exceeds maximum limit",
            marks=pytest.mark.nightly,
        ),
        ({"regex": "(?!a)b"}, "look-around"),
        ({"regex": "("}, "nclosed"),
        ({"grammar": "root ::= nothing"}, 'Rule "nothing" is not defined'),
        ({"grammar": "start: nothing"}, "nothing"),
        ({"grammar": 'start: "a" %json {"minLength": "x"}'}, "grammar has %json"),
        ({"json": {"anyOf": MANY_LENGTHS}}, "guidance: lexer error: too many expressions"),
    ],
)
def test_what_no_library_takes_exactly_is_refused_by_name(
    auto: LLM, structured: Any, text: str
) -> None:
    error = auto.generate([PROMPT], [SamplingParams(structured=structured)])[0].outputs[0].error
    assert isinstance(error, GrammarError)
    assert text in str(error)


ITSELF = {"$ref": "#"}
LONG_CHAIN = {str(i): {"$ref": f"#/$defs/{i + 1}"} for i in range(900)} | {"900": {}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": ITSELF},
        {"properties": {"a": ITSELF}, "required": ["a"]},  # it may be no object
        {"type": ["object", "null"], "properties": {"a": ITSELF}, "required": ["a"]},
        {
            "type": "object",
            "properties": {"a": {"anyOf": [ITSELF, {"type": "null"}]}},
            "required": ["a"],
        },
        {"type": "array", "items": ITSELF},
        {"type": "array", "prefixItems": [{}], "items": ITSELF, "minItems": 1},
        {"type": "object", "patternProperties": {"^z": ITSELF, r"\p{L}": {}}, "required": ["y"]},
        {"oneOf": [ITSELF, {"type": "null"}]},
        {
            "anyOf": [
                {"type": "object", "required": ["x"], "additionalProperties": False},  # never
                {"type": "null"},
            ]
        },
        {"$ref": "#z", "$defs": {"z": {"$anchor": "z", "type": "null"}}},
        {"$defs": LONG_CHAIN, "$ref": "#/$defs/0"},
        {"$defs": dict(reversed(LONG_CHAIN.items())), "$ref": "#/$defs/0"},
    ],
)
def test_a_schema_that_refers_to_itself_may_end(schema: Any) -> None:
    check_ends(schema)


@pytest.mark.parametrize(
    ("schema", "ignored"),
    [
        ({"type": "object", "properties": {"a": {"not": {}}}}, "not"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"type": "array", "maxItems": 1}, "maxItems without items"),
        ({"type": "object", "required": []}, "required"),
        ({"type": "string", "maxLength": 1}, "maxLength"),
        ({"type": "number", "maximum": 1}, "maximum"),
        ({"type": "object", "enum": [[1]]}, "type beside enum"),
        ({"type": "number", "multipleOf": 0.5}, "multipleOf"),
        ({"anyOf": [{}], "type": "string"}, "type beside anyOf"),
        ({"enum": [1, "a"], "type": "string"}, "type beside enum"),
        ({"type": "object", "required": ["a"]}, "required"),
        ({"minimum": 3}, "minimum"),
        ({"type": "string", "pattern": '^"$'}, "pattern"),
        ({"type": []}, "type"),
        ({"anyOf": []}, "an empty anyOf"),
        ({"enum": [{"a": [-(2**63)]}]}, "enum of more than 64 bits"),
        ({"enum": [2**63 - 1, 1e300]}, None),
        (
            {"type": "object", "properties": {"a": {}}, "additionalProperties": True},
            "additionalProperties beside",
        ),
        (Person.model_json_schema(), "maxLength"),
        ({"type": "object", "properties": {"a": {"type": "integer", "minimum": 0}}}, None),
        ({"enum": [1, 2], "type": "integer", "title": "x"}, None),
        ({"type": "object", "properties": {"not": {"type": "null"}}}, None),
    ],
)
def test_what_xgrammar_would_ignore_is_known(schema: Any, ignored: str | None) -> None:
    found = xgrammar_would_ignore(StructuredOutputs(json=schema))
    assert (found or "").startswith(ignored or "")
    assert bool(found) == bool(ignored)


@pytest.mark.slow
def test_a_back_end_that_is_asked_for_does_not_hand_on(auto: LLM) -> None:
    compiler = GrammarCompiler(lambda: load_vocabulary("tiny", 2048), "xgrammar")
    future = compiler.compile(StructuredOutputs(json={"type": "array", "uniqueItems": True}))
    with pytest.raises(GrammarError, match="json has uniqueItems, which xgrammar would ignore"):
        future.result(60)
    compiler.close()


def test_without_the_packages_a_request_is_refused_with_the_line_that_installs_them(
    auto: LLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler_module, "is_installed", lambda name: False)
    with pytest.raises(
        GrammarError, match=r"needs xgrammar or guidance.*pip install -e '\.\[structured\]'"
    ):
        auto.generate([PROMPT], [SamplingParams(structured={"regex": "never before"})])
    assert (
        auto.generate([PROMPT], [SamplingParams(max_tokens=2)])[0].outputs[0].finish_reason
        == "length"
    )


# --- the process and the cache --------------------------------------------------------------------


def make_compiler(**options: Any) -> GrammarCompiler:
    return GrammarCompiler(lambda: load_vocabulary("tiny", 2048), "guidance", **options)


@pytest.mark.nightly
def test_what_the_library_refuses_after_seconds_is_refused_in_its_words() -> None:
    compiler = make_compiler(max_seconds=300.0)
    error = compiler.compile(StructuredOutputs(json=MANY_OPTIONAL)).exception()
    assert isinstance(error, GrammarError)
    assert "Parser Error: Current row has" in str(error)
    compiler.close()


def test_what_takes_too_long_is_killed_and_the_next_one_is_compiled() -> None:
    compiler = make_compiler(max_seconds=0.02)
    schema = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(1000)}}
    bomb, good = StructuredOutputs(json=schema), StructuredOutputs(regex="[0-9]")
    with pytest.raises(GrammarError, match=r"its compilation takes more than 0\.02 seconds"):
        compiler.compile(bomb).result()
    # of the process that is started now: a busy machine refuses nothing
    compiler._processes._all[0]._max_seconds = 5.0
    assert compiler.compile(good).result()().accept(20)  # "1"
    again = compiler.compile(bomb)
    assert again.done(), "that it takes too long is remembered"
    assert isinstance(again.exception(), GrammarError)
    compiler.close()


def test_what_the_engine_would_build_for_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It builds what llguidance has compiled once more, and nothing can stop it then."""
    clock = itertools.count(0.0, 0.3)
    guidance = backends.Guidance(load_vocabulary("tiny", 2048))
    monkeypatch.setattr(backends, "process_time", lambda: next(clock))
    text = guidance.compile("regex", "a+")
    clock = itertools.count(0.0, 0.6)
    with pytest.raises(ValueError, match="it takes more than 0\\.5 seconds to build"):
        guidance.compile("regex", "a+")
    assert guidance.load(text)[0]().accept(67)  # "a"


def test_of_a_long_text_that_is_forced_the_beginning_is_read() -> None:
    """llguidance asks for it in each step."""
    vocabulary = load_vocabulary("tiny", 2048)
    text = b"a KV block " * 10_000
    tokens = backends.LongestMatch(vocabulary)(text)
    assert text.startswith(b"".join(vocabulary.token_bytes[each] for each in tokens))
    assert 4 <= len(tokens) <= 4 * max(map(len, vocabulary.token_bytes))


def test_what_no_request_waits_for_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler, asked = make_compiler(), []
    started, may_go_on = threading.Event(), threading.Event()

    def ask(process: Any, what: str, backend: str, kind: str, text: str) -> Any:
        started.set()
        asked.append(text)
        assert may_go_on.wait(60)
        raise GrammarError("no")

    monkeypatch.setattr(compiler_module.CompilerProcess, "answer", ask)
    scheduler = Scheduler(KVCacheManager(16, 4), max_num_seqs=4, max_num_batched_tokens=8)
    scheduler.attach(GrammarGate(compiler))
    for text in "abc":
        params = SamplingParams(structured={"regex": text})
        scheduler.add_request(Request(text, [1], params))
        assert started.wait(60)
    scheduler.finish_request("b", "abort")
    may_go_on.set()
    assert compiler.compile(StructuredOutputs(regex="d")).exception(60)
    assert asked == ["a", "c", "d"]
    compiler.close()


@pytest.mark.slow
def test_a_process_that_was_killed_is_started_again() -> None:
    compiler = make_compiler()
    compiler.compile(StructuredOutputs(regex="a")).result()
    process = compiler._quick._all[0]._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert compiler.compile(StructuredOutputs(regex="b")).result()
    assert compiler._quick._all[0]._process is not process
    compiler.close()


@pytest.mark.slow
def test_what_was_compiled_is_kept_in_bounded_bytes() -> None:
    cache, new = BoundedCache(100), lambda: None
    for name in "abc":
        cache.put(("regex", name), new, 30)
    assert cache.get(("regex", "a")) is new
    cache.put(("regex", "d"), new, 30)
    assert [cache.get(("regex", name)) is new for name in "abcd"] == [True, False, True, True]
    cache.put(("regex", "a"), new, 60)
    assert (cache.get(("regex", "c")), cache.num_bytes) == (None, 92)
    cache.put(("regex", "huge"), new, 300)
    assert cache.num_bytes == 0


# --- where it is read -----------------------------------------------------------------------------

# Python's re takes seconds for it.
LONG_TO_READ = "(?i)" + r"[\x00-\U0010ffff]" * 1000


@pytest.mark.parametrize(
    "structured",
    [
        {"regex": LONG_TO_READ},
        {"json": {"type": "string", "pattern": LONG_TO_READ}},
        {"json": {"properties": {"a": {"items": {"pattern": LONG_TO_READ}}}}},
        {"json": {"anyOf": [{"pattern": LONG_TO_READ[:1000] + str(i)} for i in range(100)]}},
        {"json": {"enum": [*range(10**4)]}},
        {"choice": ["x" * 100] * 1000},
        {"grammar": "root ::= " + " | ".join('"a"' for _ in range(20_000))},
    ],
)
def test_no_text_of_a_stranger_is_read_where_requests_are_served(
    auto: LLM, structured: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the thread that takes requests nor the one that steps works on it: a process does,
    which can be killed.
    """
    compiler, asked = make_compiler(), []
    is_over = threading.Event()

    def ask(process: Any, what: str, backend: str, kind: str, text: str) -> Any:
        asked.append(text)
        assert is_over.wait(60)
        raise GrammarError("no")

    monkeypatch.setattr(compiler_module.CompilerProcess, "answer", ask)
    before = time.thread_time()
    params = SamplingParams(structured=structured)
    auto.engine.input_processor.read("a", [1], params)
    assert params.structured is not None
    future = compiler.compile(params.structured)
    assert time.thread_time() - before < 0.3
    is_over.set()
    assert isinstance(future.exception(60), GrammarError)
    assert asked == [params.structured.key[1]]
    compiler.close()


def test_the_grammars_of_one_tenant_do_not_delay_those_of_another() -> None:
    """Each tenant has one process at a time, and so many of its seconds in a minute."""
    clock, cpu = Seconds(), Seconds()
    threads = FairThreads(4, 20.0, clock=clock, cpu_clock=cpu)
    compiler = make_compiler(threads=threads)
    asked: list[str] = []
    may_go_on = threading.Event()

    def ask(process: Any, what: str, backend: str, kind: str, text: str) -> Any:
        asked.append(text)
        if text.startswith("slow"):
            assert may_go_on.wait(60)
            cpu.now += 8
        raise GrammarError("no")

    def submit(text: str, tenant: str) -> "Future[Any]":
        return compiler.compile(StructuredOutputs(regex=text), tenant)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler_module.CompilerProcess, "answer", ask)
        slow = [submit(f"slow{i}", "alice") for i in range(5)]
        for text in "abc":
            assert submit(text, "bob").exception(60)
        assert [text for text in asked if text.startswith("slow")] in ([], ["slow0"])
        may_go_on.set()
        assert slow[2].exception(60), "its 24th second is over"
        assert submit("d", "bob").exception(60)
        assert not slow[3].done(), "one that differs in a byte is compiled in the next minute"
        clock.now = 60
        assert submit("e", "bob").exception(60)
        assert slow[4].exception(60)
    compiler.close()


def test_long_grammars_of_a_client_do_not_delay_its_short_ones() -> None:
    compiler, may_go_on = make_compiler(), threading.Event()

    def ask(process: Any, what: str, backend: str, kind: str, text: str) -> Any:
        assert len(text) < 100 or may_go_on.wait(60)
        raise GrammarError("no")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler_module.CompilerProcess, "answer", ask)
        texts = [str(i) * 5000 for i in range(1, 6)]
        long = [compiler.compile(StructuredOutputs(regex=text), "/10.0.0.1") for text in texts]
        for text in "abc":
            future = compiler.compile(StructuredOutputs(regex=text), "/10.0.0.1")
            assert future.exception(60)
        assert not any(each.done() for each in long)
        may_go_on.set()
        assert all(each.exception(60) for each in long)
    compiler.close()


def test_a_short_grammar_waits_for_a_slow_one_no_longer_than_its_turn() -> None:
    """What is slow begins again among the long ones, and may be given up there, too."""
    compiler, may_go_on, asked = make_compiler(), threading.Event(), []

    def answer(process: Any, what: str, backend: str, kind: str, text: str) -> Any:
        asked.append((text, type(process)))
        if text.startswith("slow"):
            if isinstance(process, compiler_module.QuickProcess):
                raise TurnOverError
            assert may_go_on.wait(60)
        raise GrammarError("no")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler_module.CompilerProcess, "answer", answer)
        texts = [f"slow{i}" for i in range(6)]
        slow = [compiler.compile(StructuredOutputs(regex=text), "/10.0.0.1") for text in texts]
        for text in "abc":
            assert compiler.compile(StructuredOutputs(regex=text), "/10.0.0.1").exception(60)
        assert not any(each.done() for each in slow)
        assert slow[3].cancel(), "its client has left"
        may_go_on.set()
        assert all(each.exception(60) for each in slow if not each.cancelled())
    processes = dict.fromkeys(process for text, process in asked if text == "slow0")
    assert [*processes] == [compiler_module.QuickProcess, compiler_module.CompilerProcess]
    assert [process for text, process in asked if text == "slow3"] == [compiler_module.QuickProcess]
    compiler.close()


@pytest.mark.slow
def test_a_short_grammar_that_takes_long_is_compiled_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiler_module, "QUICK_SECONDS", 1e-6)
    compiler = make_compiler()
    assert compiler.compile(StructuredOutputs(regex="[0-9]")).result(60)().accept(20)  # "1"
    assert len(compiler._processes._all) == 1, "it has begun again among the long ones"
    compiler.close()


@pytest.mark.parametrize(
    "outcome", [TimeoutError("takes more than 5 seconds"), EOFError("has ended"), {"spent": 1}]
)
def test_a_grammar_that_has_ended_its_process_is_not_tried_again(outcome: Any) -> None:
    """Not by another back end and not the next time."""
    compiler, asked = GrammarCompiler(lambda: load_vocabulary("tiny", 2048)), []

    def ask(process: Any, question: bytes) -> Any:
        asked.append(json.loads(question)["what"])
        if asked[-1] == "fit_backends":
            return {"found": ["guidance", "xgrammar"]}
        if isinstance(outcome, Exception):
            raise outcome
        return outcome | {"error": "structured: regex needs more memory"}

    long = StructuredOutputs(regex="a" * 3000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler_module.CompilerProcess, "ask", ask)
        error = compiler.compile(long).exception(60)
        assert isinstance(error, GrammarError)
        assert asked == ["fit_backends", "compile"]
        again = compiler.compile(long)
        assert again.done()
        assert str(again.exception()) == str(error)
    compiler.close()


class Seconds:
    """A clock that the test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_gate_says_whose_request_wants_a_grammar() -> None:
    class Source:
        idle_seconds = 0.0
        clients: ClassVar[list[str]] = []

        def compile(self, wanted: Any, client: str = "") -> "Future[Any]":
            self.clients.append(client)
            return Future()

    params = SamplingParams(structured={"regex": "a"})
    requests = [Request(name, [1], params, client=name) for name in ("alice", "/127.0.0.1")]
    GrammarGate(Source()).add(requests)
    assert Source.clients == ["alice", "/127.0.0.1"]
