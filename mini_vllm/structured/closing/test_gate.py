"""JSON closes within max_tokens, whatever a model would rather write."""

import json
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import jsonschema
import pytest

pytest.importorskip("xgrammar")
pytest.importorskip("llguidance")

from mini_vllm.engine.core_factory import load_vocabulary
from mini_vllm.errors import InvalidParameterError
from mini_vllm.frontend.tools import ToolUse
from mini_vllm.params import SamplingParams
from mini_vllm.request import Request
from mini_vllm.structured.backends import Vocabulary, make_backend
from mini_vllm.structured.closing.gate import ClosingGate
from mini_vllm.structured.scheduler import Grammar, NewGrammar

STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
TREE = {
    "type": "object",
    "properties": {"v": INTEGER, "kids": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
    "required": ["v", "kids"],
}
PARAMETERS: dict[str, dict[str, Any]] = {  # of functions that clients ask for
    "text": {
        "properties": {"location": STRING, "unit": {"enum": ["celsius", "fahrenheit"]}},
        "required": ["location"],
    },
    "numbers": {"properties": {"a": INTEGER, "b": NUMBER}, "required": ["a", "b"]},
    "nested": {
        "$defs": {"n": TREE},
        "properties": {"root": {"$ref": "#/$defs/n"}, "day": {"type": "string", "format": "date"}},
        "required": ["root", "day"],
    },
    "lists": {
        "properties": {
            "tags": {"type": "array", "items": STRING, "minItems": 2},
            "zip": {"anyOf": [STRING, {"type": "null"}]},
            "code": {"type": "string", "minLength": 9},
            "is_new": {"type": "boolean"},
        },
        "required": ["tags", "zip", "code", "is_new"],
    },
    "anything": {},
    "values": {
        "properties": {"value": {}, "meta": {"type": "object", "additionalProperties": STRING}},
        "required": ["value", "meta"],
    },
}


@cache
def vocabulary() -> Vocabulary:
    return load_vocabulary("tiny", 2048)


def calls(*names: str) -> dict[str, Any]:
    """The schema of a forced list of calls."""
    functions = [
        {"name": name, "parameters": {"type": "object", **PARAMETERS[name]}} for name in names
    ]
    tools = [{"type": "function", "function": function} for function in functions]
    schema = ToolUse(tools, "required").forced_schema()
    assert schema is not None
    return schema


def grammar_of(backend: str, schema: Any) -> NewGrammar:
    library = make_backend(backend, vocabulary())
    return library.load(library.compile("json", json.dumps(schema)))[0]


def start(new: NewGrammar, max_tokens: int, *, closes: bool = True, **options: Any) -> Grammar:
    structured = {"json": {}, "closes": closes}
    params = SamplingParams(max_tokens=max_tokens, structured=structured, **options)
    gate = ClosingGate(None, vocabulary)  # type: ignore[arg-type]
    return gate.begin(new, Request("r", [1, 2], params, max_model_len=2048))


def write(grammar: Grammar, rng: random.Random, liked: Sequence[int], max_tokens: int) -> list[int]:
    """What a model writes that likes some tokens: one of these, if any is allowed."""
    found: list[int] = []
    while len(found) < max_tokens and not grammar.is_terminated:
        mask = grammar.mask()
        assert mask is not None
        of_these = [i for i in liked if mask[i // 8] >> i % 8 & 1]
        found.append(rng.choice(of_these or [*set_bits(mask)]))
        assert grammar.accept(found[-1])
    return found


def set_bits(mask: bytes) -> list[int]:
    return [
        8 * i + bit for i, byte in enumerate(mask) if byte for bit in range(8) if byte >> bit & 1
    ]


def text_of(token_ids: Sequence[int]) -> str:
    return b"".join(vocabulary().token_bytes[i] for i in token_ids).decode()


def tokens_with(characters: bytes) -> list[int]:
    return [i for i, data in enumerate(vocabulary().token_bytes) if {*data} & {*characters}]


LIKED = {  # what never ends by itself
    "letters": tokens_with(b"abcdefghijklmnopqrstuvwxyz \\"),
    "digits": tokens_with(b"0123456789e"),
    "openers": tokens_with(b",{["),
}


@pytest.mark.parametrize("backend", ["xgrammar", "guidance"])
@pytest.mark.parametrize(
    "names",
    [
        ("text", "lists", "numbers"),
        *(pytest.param((name,), marks=pytest.mark.slow) for name in PARAMETERS),
    ],
)
def test_forced_calls_end_within_max_tokens_whatever_a_model_likes(
    backend: str, names: Sequence[str]
) -> None:
    schema = calls(*names)
    new = grammar_of(backend, schema)
    for seed, (max_tokens, liked) in enumerate(
        (n, each) for n in (150, 300) for each in LIKED.values()
    ):
        found = write(start(new, max_tokens), random.Random(seed), liked, max_tokens)
        assert found[-1] in vocabulary().end_token_ids
        jsonschema.validate(json.loads(text_of(found[:-1])), schema)


def test_no_number_is_infinite_or_longer_than_clients_read() -> None:
    new = grammar_of("xgrammar", calls("numbers"))
    for seed, digits in enumerate((b"0123456789", b"9eE", b"9e+", b"9.", b"-9")):
        found = write(start(new, 800), random.Random(seed), tokens_with(digits), 800)
        for call in json.loads(text_of(found[:-1])):
            for value in call["arguments"].values():
                assert len(str(value)) <= 83, "80, and a part of a token"
                assert abs(float(value)) < 1e200


def test_a_long_number_in_a_text_goes_on() -> None:
    grammar = start(grammar_of("xgrammar", calls("text")), 800)
    ids = {data: i for i, data in enumerate(vocabulary().token_bytes)}
    for byte in b'[{"name": "text", "arguments": {"location": "a ' + b"1" * 200 + b"e123":
        mask, token_id = grammar.mask(), ids[bytes([byte])]
        assert mask is not None
        assert mask[token_id // 8] >> token_id % 8 & 1
        assert grammar.accept(token_id)


def test_without_it_the_same_texts_are_cut() -> None:
    new = grammar_of("xgrammar", calls("text"))
    grammar = start(new, 150, closes=False)
    found = write(grammar, random.Random(0), LIKED["letters"], 150)
    assert len(found) == 150
    assert not grammar.is_terminated


def test_a_text_that_ends_in_time_is_masked_by_its_grammar_alone() -> None:
    new = grammar_of("xgrammar", calls("text"))
    whole, plain = start(new, 200), new()
    text = '[{"name": "text", "arguments": {"location": "Oslo, Norway", "unit": "celsius"}}]'
    ids = {data: i for i, data in enumerate(vocabulary().token_bytes)}
    for byte in text.encode():
        assert whole.mask() == plain.mask()
        assert whole.accept(ids[bytes([byte])])
        assert plain.accept(ids[bytes([byte])])


def test_what_was_taken_back_is_not_counted() -> None:
    new = grammar_of("xgrammar", calls("text"))
    grammar = start(new, 150)
    found = write(grammar, random.Random(3), LIKED["letters"], 100)
    grammar.rollback(60)
    again = write(grammar, random.Random(4), LIKED["letters"], 110)
    assert grammar.is_terminated
    json.loads(text_of(found[:40] + again[:-1]))


def test_where_the_shortest_end_does_not_fit_nothing_is_changed() -> None:
    new = grammar_of("xgrammar", calls("text"))
    grammar, plain = start(new, 5), new()
    for _ in range(5):
        assert grammar.mask() == plain.mask()
        token_id = vocabulary().token_bytes.index(b"[") if not plain.is_terminated else 0
        if not plain.accept(token_id):
            break
        grammar.accept(token_id)


def test_a_request_that_forbids_tokens_is_left_alone() -> None:
    new = grammar_of("xgrammar", calls("text"))
    grammar = start(new, 150, bad_token_ids=((20,),))
    assert len(write(grammar, random.Random(0), LIKED["letters"], 150)) == 150


def test_json_alone_closes() -> None:
    with pytest.raises(InvalidParameterError, match="closes must be False, or True with JSON"):
        SamplingParams(structured={"regex": "a*", "closes": True})
    assert SamplingParams(structured={"json_object": True, "closes": True}).structured is not None
