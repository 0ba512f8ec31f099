"""A grammar that is called exact: what it accepts parses and validates, and each value that
validates can be written.

Python's json and jsonschema are the judges. A token is a byte, so the masks say which texts there
are. The back ends are asked in this process; what they refuse is refused by name elsewhere
(test_structured.py).
"""

import ctypes
import json
import random
import re
from collections.abc import Callable, Iterator
from datetime import date, time
from decimal import Decimal
from functools import cache, partial
from ipaddress import IPv4Address, IPv6Address
from typing import Any
from urllib.parse import urlsplit

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("xgrammar")
pytest.importorskip("llguidance")

from mini_vllm.errors import GrammarError
from mini_vllm.params import StructuredOutputs
from mini_vllm.structured.backends import MAX_WHITESPACE, Backend, Vocabulary, make_backend
from mini_vllm.structured.scheduler import NewGrammar
from mini_vllm.structured.schema import OF_TYPE, fit_backends

END = 256
VOCABULARY = Vocabulary([*(bytes([byte]) for byte in range(END)), b""], [END])
BACKENDS = ("xgrammar", "guidance")
NAMES = ["a", "ab", 'q"', "\\", "/", "é", "😀", "", "b c"]
CHARACTERS = ["a", "b", '"', "\\", "/", "\n", "\t", "\0", "\x1f", "\x7f", "é", "\u2028", "😀"]
Rng = random.Random


@cache
def backend(name: str) -> Backend:
    return make_backend(name, VOCABULARY)


def grammar(name: str, schema: Any) -> NewGrammar | None:
    """Its matchers; None if it does not claim to take the schema."""
    wanted = StructuredOutputs(json=schema)
    try:
        fit_backends(wanted, name)
        return backend(name).load(backend(name).compile(*wanted.key))[0]
    except (GrammarError, ValueError, RuntimeError):
        return None


def accepts(new: NewGrammar, data: bytes) -> bool:
    matcher = new()
    for token_id in (*data, END):
        mask = matcher.mask()
        if mask is not None and not mask[token_id // 8] >> token_id % 8 & 1:
            return False
        if not matcher.accept(token_id):
            return False
    return True


def walk(new: NewGrammar, rng: Rng) -> bytes | None:
    """A text that the masks allow, of any allowed bytes; None if it has no end so soon."""
    matcher, data = new(), bytearray()
    for length in range(120):
        mask = matcher.mask()
        allowed = [t for t in range(END + 1) if mask is None or mask[t // 8] >> t % 8 & 1]
        ends = [t for t in (END, *b'"}]') if t in allowed]
        liked = [t for t in b'\t\0\x1f\\u0e.-9"a,{[' if t in allowed]
        among = ends if ends and rng.random() < length / 60 else liked
        token_id = rng.choice(among if among and rng.random() < 0.7 else allowed)
        assert matcher.accept(token_id), (bytes(data), token_id)
        if token_id == END:
            return bytes(data)
        data.append(token_id)
    return None


def is_right(schema: Any, data: bytes) -> bool:
    """Whether the text of these bytes, as the engine reads them, parses and validates."""
    try:
        value = json.loads(data.decode(errors="replace"), parse_constant=float.fromhex)
    except ValueError:
        return False
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


# --- spellings ------------------------------------------------------------------------------------


def plain(value: Any, schema: Any) -> str:
    """The spelling that is promised: json.dumps with ensure_ascii=False, numbers without an
    exponent or a fraction of 0, and properties in the order of the schema.
    """
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int | float):
        return format(Decimal(repr(int(value) if value == int(value) else value)), "f")
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return f"[{', '.join(plain(each, {}) for each in value)}]"
    order = [*schema.get("properties", ()), *schema.get("required", ()), *value]
    pairs = [(name, value[name]) for name in dict.fromkeys(order) if name in value]
    return f"{{{', '.join(f'{plain(name, {})}: {plain(each, {})}' for name, each in pairs)}}}"


def spelled(value: Any, rng: Rng) -> str:
    """Any spelling, and some that are wrong."""
    space = rng.choice(["", "", "", " ", "\n\t\r", " " * MAX_WHITESPACE, " " * 25, "\x0b"])
    if isinstance(value, str):
        text = "".join(spelled_character(each, rng) for each in value)
        return f'{space}"{text}"'
    if isinstance(value, list):
        items = ",".join(spelled(each, rng) for each in value)
        return f"{space}[{items}{rng.choice(['', '', space, ','])}]"
    if isinstance(value, dict):
        pairs = list(value.items())
        if pairs and rng.random() < 0.5:
            pairs.insert(rng.randint(0, len(pairs)), (rng.choice(pairs)[0], rng.choice([1, "x"])))
        if rng.random() < 0.2:
            rng.shuffle(pairs)
        items = ",".join(
            f"{spelled(name, rng)}{space}:{spelled(each, rng)}" for name, each in pairs
        )
        return f"{space}{{{items}{space}}}"
    if isinstance(value, bool) or value is None:
        return space + json.dumps(value)
    text = plain(value, {})
    number = rng.choice([
        text, text, repr(value), f"{value:e}", f"{value:.3E}", f"{text}e0", f"-{text}", f"0{text}",
        f"+{text}", f"{text}.", text.lstrip("0"), f"{text}0", f"{text}{'9' * 20}",
        text if "." in text else f"{text}.0", text if "." in text else f"{text}.{'0' * 20}1",
    ])  # fmt: skip
    return space + number


def spelled_character(character: str, rng: Rng) -> str:
    short = json.dumps(character, ensure_ascii=False)[1:-1]
    units = character.encode("utf-16-be").hex()
    escaped = "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
    choices = [
        short,
        short,
        escaped,
        escaped.upper().replace("U", "u"),
        character,
        f"\\{character}",
    ]
    return rng.choice([*choices, escaped[:5]] if rng.random() < 0.1 else choices[:5])


def damaged(data: bytes, rng: Rng) -> bytes:
    """One byte more, fewer, or other."""
    at, byte = rng.randrange(len(data) + 1), rng.choice(b'\x00\t\x7f"\\,.0eE-{}[]\xed\xa0\x80\xc3')
    return data[:at] + rng.choice([b"", bytes([byte])]) + data[at + rng.randint(0, 1) :]


# --- schemas and values ---------------------------------------------------------------------------


def a_string(rng: Rng) -> str:
    return "".join(rng.choices(CHARACTERS, k=rng.randint(0, 5)))


def lengths(*names: str) -> Callable[[Rng], Any]:
    def make(rng: Rng) -> tuple[Any, Iterator[Any]]:
        low = rng.randint(0, 3)
        values = {"minLength": low, "maxLength": low + rng.randint(0, 2)}
        schema = {"type": "string"} | {name: values[name] for name in names}
        return schema, (a_string(rng) for _ in iter(int, 1))

    return make


def bounds(kind: str, *names: str) -> Callable[[Rng], Any]:
    def make(rng: Rng) -> tuple[Any, Iterator[Any]]:
        digits = 0 if kind == "integer" and rng.random() < 0.8 else rng.randint(0, 4)

        def a_number() -> Any:
            number = round(rng.uniform(-20, 20), digits)
            large = rng.choice([0, 0, 0, 2**40, -(10**9)])
            return number + large if digits else int(number) + large

        low = rng.choice([0, a_number(), a_number()])
        high = low + abs(round(rng.choice([1, 30, 0.25 if digits else 2]), digits))
        values = {"inimum": low, "aximum": high}
        schema = {"type": kind} | {name: values[name[-6:]] for name in names}
        return schema, (number_near(rng, rng.choice([low, high]), kind) for _ in iter(int, 1))

    return make


def number_near(rng: Rng, bound: Any, kind: str) -> Any:
    if kind == "integer":
        return int(bound) + rng.choice([-1, 0, 1, rng.randint(-100, 100), 10**18, -(10**20)])
    step = rng.choice([0.0, 1.0, -1.0]) * 10.0 ** -rng.randint(0, 9)
    return rng.choice([bound, bound + step, round(bound + step, 1), rng.uniform(-30, 30), 0, 1e22])


def objects(*names: str) -> Callable[[Rng], Any]:
    def make(rng: Rng) -> tuple[Any, Iterator[Any]]:
        known = rng.sample(NAMES, rng.randint(0, 3))
        rest = [name for name in NAMES if name not in known]
        inner: list[Any] = [
            {"type": "integer"},
            {"type": "string"},
            {"type": "string", "maxLength": 2},
        ]
        values = {
            "properties": {name: rng.choice([*inner, {}]) for name in known},
            "required": rng.sample(known, rng.randint(0, len(known)))
            + (rng.sample(rest, 1) if rng.random() < 0.2 else []),
            "additionalProperties": rng.choice([False, True, {}, *inner]),
        }
        schema: dict[str, Any] = {"type": "object"} | {name: values[name] for name in names}

        def a_value() -> Any:
            chosen = [name for name in known if rng.random() < 0.7]
            chosen += [*schema.get("required", ())] if rng.random() < 0.8 else []
            chosen += rng.sample(NAMES, rng.choice([0, 0, 1, 2]))
            return {name: rng.choice([1, 7, "x", a_string(rng), None, [1]]) for name in chosen}

        return schema, (a_value() for _ in iter(int, 1))

    return make


def arrays(*names: str) -> Callable[[Rng], Any]:
    def make(rng: Rng) -> tuple[Any, Iterator[Any]]:
        inner: list[Any] = [{"type": "integer"}, {"type": "string"}, {}, True]
        low = rng.randint(0, 3)
        values = {
            "items": rng.choice([*inner, False]),
            "prefixItems": rng.choices(inner, k=rng.randint(1, 3)),
            "minItems": low,
            "maxItems": low + rng.randint(0, 2),
        }
        schema = {"type": "array"} | {name: values[name] for name in names}
        some = [1, 2, "x", None, [], a_string(rng)]
        return schema, (rng.choices(some, k=rng.randint(0, 4)) for _ in iter(int, 1))

    return make


EVERY = {
    "object": (objects, ("properties", "required", "additionalProperties")),
    "array": (arrays, ("items", "prefixItems", "minItems", "maxItems")),
    "string": (lengths, ("minLength", "maxLength")),
    "integer": (lambda *names: bounds("integer", *names), tuple(OF_TYPE["integer"])),
    "number": (lambda *names: bounds("number", *names), tuple(OF_TYPE["integer"])),
}
KINDS = [(kind, name) for kind, (_, names) in EVERY.items() for name in (*sorted(names), "some")]


def case(kind: str, keyword: str, rng: Rng) -> tuple[Any, Iterator[Any]]:
    """A schema with this keyword, or some of its kind, and values that may be right."""
    make, names = EVERY[kind]
    chosen = rng.sample(names, rng.randint(0, len(names))) if keyword == "some" else [keyword]
    return make(*chosen)(rng)  # type: ignore[operator,no-any-return]


def has_more_than_closed(schema: Any, value: Any) -> bool:
    """Whether an object has more properties than a schema that does not say it may."""
    if "properties" not in schema or "additionalProperties" in schema:
        return False
    return not value.keys() <= schema["properties"].keys()


def is_promised(schema: Any, value: Any) -> bool:
    """Whether docs/serving.md says that a value which validates can be written."""
    if has_more_than_closed(schema, value):
        return False
    is_closed = "properties" in schema and "additionalProperties" not in schema
    has_names = "properties" in schema or "required" in schema
    if has_names and schema.get("additionalProperties", not is_closed) is not False:
        return not any(c in json.dumps(value) for c in ("\\u0000", "\\u001f", "\\u007f", "\x7f"))
    for name in schema if schema.get("type") == "number" else ():
        bound = schema[name]
        if name.startswith("exclusive") and abs(value - bound) < (abs(bound) * 1e-14 or 1e-20):
            return False
    return True


def check(kind: str, keyword: str, rng: Rng) -> None:
    schema, values = case(kind, keyword, rng)
    made = {name: new for name in BACKENDS if (new := grammar(name, schema))}
    for name, new in made.items():
        for _, value in zip(range(6), values, strict=False):
            text = plain(value, schema).encode()
            if is_right(schema, text) and is_promised(schema, value):
                assert accepts(new, text), f"{name} {schema} refuses {text!r}"
            if has_more_than_closed(schema, value):
                assert not accepts(new, text), f"{name} {schema} is open to {text!r}"
            right = spelled(value, rng).encode()
            for data in (right, damaged(right, rng)):
                if accepts(new, data):
                    assert is_right(schema, data), f"{name} {schema} accepts {data!r}"
        written = walk(new, rng)
        assert written is None or is_right(schema, written), f"{name} {schema} writes {written!r}"


@settings(max_examples=3, deadline=None)
@given(rng=st.randoms(use_true_random=True))
@pytest.mark.parametrize(("kind", "keyword"), KINDS)
def test_a_keyword_is_taken_exactly_or_not_at_all(kind: str, keyword: str, rng: Rng) -> None:
    check(kind, keyword, rng)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(rng=st.randoms(use_true_random=True))
@pytest.mark.parametrize(("kind", "keyword"), KINDS)
def test_a_keyword_is_taken_exactly_at_length(kind: str, keyword: str, rng: Rng) -> None:
    check(kind, keyword, rng)


def is_date(text: str) -> bool:
    is_written_so = re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text)
    return bool(is_written_so) and is_read(date.fromisoformat, text)


def is_time(text: str) -> bool:
    return bool(re.fullmatch(r"[0-9:]{8}(\.[0-9]+)?(Z|[+-][0-9:]{5})", text)) and is_read(
        time.fromisoformat, re.sub(r"(\.[0-9]{6})[0-9]+", r"\1", text)
    )


def is_read(read: Callable[[str], Any], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def is_date_time(text: str) -> bool:
    day, letter, rest = text.partition("T")
    return letter == "T" and is_date(day) and is_time(rest)


def is_hostname(text: str) -> bool:
    labels = text.split(".")
    return len(text) < 254 and all(
        re.fullmatch("[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", each) for each in labels
    )


LABEL = "a" * 61
FORMATS_TRIED: dict[str, tuple[Callable[[str], bool], list[str]]] = {
    "date": (
        is_date,
        "2023-02-29 2024-02-29 1900-02-29 2000-02-29 0000-02-29 2023-04-31 9999-12-31".split(),
    ),
    "time": (is_time, "23:59:60Z 23:59:59Z 12:00:00+05:30 12:00:00.1234567Z 24:00:00Z".split()),
    "date-time": (is_date_time, ["2023-02-29T12:00:00Z", "2024-02-29T23:59:59.5-01:00"]),
    "duration": (
        lambda text: bool(re.fullmatch(r"P(?=.)([0-9]+[YMWD])*(T([0-9]+[HMS])+)?", text)),
        "P1D P1Y2M3DT4H5M6S PT P P1W P1DT P1H".split(),
    ),
    "email": (lambda text: "@" in text[1:-1], ["a@b.c", "a@b", "@", "a@", '"a b"@c.d']),
    "hostname": (
        is_hostname,
        ["a.b", "-a.b", f"{LABEL}aa.b", f"{LABEL}aaa.b", ".".join([LABEL] * 4),
         f"{LABEL}." * 4 + "abcdef"],
    ),
    "ipv4": (partial(is_read, IPv4Address), ["1.2.3.4", "01.2.3.4", "256.1.1.1", "1.2.3"]),
    "ipv6": (partial(is_read, IPv6Address), ["::", "1::", "1:2:3:4:5:6:7:8", "1::2::3", "12345::"]),
    "uri": (
        lambda text: is_read(urlsplit, text) and bool(re.match("[A-Za-z][A-Za-z0-9+.-]*:", text)),
        ["http://a", "a:b", "http://[::1]/", "http://[::1", "//a", "1a:b", "http://[1::2::3]"],
    ),
    "uuid": (
        lambda text: [len(part) for part in text.split("-")] == [8, 4, 4, 4, 12],
        ["12345678-1234-1234-1234-123456789abc", "1234567-81234-1234-1234-123456789abc"],
    ),
}  # fmt: skip
NOT_WRITTEN = {'"a b"@c.d'}
FORMAT_BYTES = "0123456789abcdfzTZPYMDHS-:.@/%[]+"


@pytest.mark.parametrize("name", FORMATS_TRIED)
def test_a_format_takes_nothing_else(name: str) -> None:
    """And it takes what is written as usual. Beside other keywords it holds, too."""
    is_good, texts = FORMATS_TRIED[name]
    rng = random.Random(name)
    schema: Any = {"type": "string", "format": name}
    new = grammar("guidance", schema)
    assert new is not None
    assert grammar("xgrammar", schema) is None
    accepted = {text for text in texts if accepts(new, json.dumps(text).encode())}
    assert accepted == {text for text in texts if is_good(text)} - NOT_WRITTEN
    written = [json.loads(data) for _ in range(8) if (data := walk(new, rng)) is not None]
    for text in texts * 4:
        at, byte = rng.randrange(len(text)), rng.choice(FORMAT_BYTES)
        near = text[:at] + byte + text[at + rng.randint(0, 1) :]
        written += [near] if accepts(new, json.dumps(near).encode()) else []
    assert [text for text in written if not is_good(text)] == []
    both = grammar("guidance", schema | {"enum": texts})
    assert both is None or not any(
        accepts(both, json.dumps(text).encode()) for text in texts if not is_good(text)
    )


INTEGER: Any = {"type": "integer"}
NAMED: Any = {"type": "object", "properties": {"a": INTEGER}}
TWO = {"allOf": [NAMED, {"type": "object", "properties": {"b": {"type": "string"}}}]}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (NAMED | {"additionalProperties": True}, r'{"\u0061": "x"}'),
        (NAMED | {"additionalProperties": {"type": "string"}}, r'{"\u0061": "x"}'),
        (TWO, r'{"\u0061": "x"}'),
        ({"type": "object", "patternProperties": {"^k": INTEGER}}, r'{"\u006b": "x"}'),
        ({"type": "object", "minProperties": 2}, '{"a": 1, "a": 2}'),
        ({"type": "object", "required": ["a"], "minProperties": 2}, r'{"a": 1, "\u0061": 2}'),
        ({"type": "object", "enum": [[1]]}, "[1]"),
        ({"type": "array", "uniqueItems": True, "x-guidance": {"lenient": True}}, "[1, 1]"),
        ({"type": "number", "exclusiveMaximum": 5}, "4.99999999999999999999"),
        ({"type": "number", "exclusiveMinimum": 0}, f"0.{'0' * 330}1"),
        ({"type": "number", "maximum": 1099511627761.5999}, "1099511627761.6"),
        ({"type": "string", "maxLength": 3}, '"\t"'),
    ],
)
def test_what_a_library_takes_wrongly_is_not_accepted(schema: Any, text: str) -> None:
    assert not is_right(schema, text.encode())
    for name in BACKENDS:
        if new := grammar(name, schema):
            assert not accepts(new, text.encode()), name


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "string", "maxLength": 3}, r'"\n\u00e9\ud83d\ude00"'),
        ({"type": "string", "minLength": 2}, r'"\b\f"'),
        ({"type": "number", "maximum": 7.85}, "7.8"),
        ({"type": "number", "minimum": -7.0002}, "-7"),
        ({"type": "number", "minimum": 0}, "5.00000001"),
        ({"type": "array", "maxItems": 1}, "[1]"),
        ({"type": "array", "prefixItems": [INTEGER]}, '[1, "a"]'),
        ({"type": "object", "required": []}, '{"a": 1}'),
        (TWO, '{"a": 1, "b": "x", "c": 2}'),
        (NAMED | {"x-guidance": {"whitespace_flexible": False}}, '{"a" : 1}'),
        ({"type": "number", "maximum": 9.5, "default": 3.141592653589793}, "9.4"),
    ],
)
def test_what_a_library_refuses_wrongly_is_accepted(schema: Any, text: str) -> None:
    assert is_right(schema, text.encode())
    made = [new for name in BACKENDS if (new := grammar(name, schema))]
    assert made
    assert all(accepts(new, text.encode()) for new in made)


def test_every_keyword_that_is_claimed_is_tried() -> None:
    for kind, names in OF_TYPE.items():
        assert names <= {*EVERY[kind][1]} if names else True, kind


# --- what a grammar takes -------------------------------------------------------------------------


class Allocated(ctypes.Structure):
    """What glibc's mallinfo2() tells."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks "
        "keepcost".split()
    )


def allocated() -> int:
    """Bytes that the process has from malloc."""
    mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo2 is None:
        pytest.skip("only glibc tells what is allocated")
    mallinfo2.restype = Allocated
    found = mallinfo2()
    return int(found.uordblks + found.hblkhd)


NAMED_APART: Any = [{"type": "object", "properties": {f"{i:08}": INTEGER}} for i in range(40)]


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "maxItems": 300, "items": {"anyOf": NAMED_APART}},
        {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(60)}},
        {"enum": [f"value {i}" for i in range(300)]},
        {"type": "array", "maxItems": 2000, "items": INTEGER},
    ],
    ids=["alternatives", "properties", "values", "items"],
)
def test_a_grammar_counts_as_what_it_takes(name: str, schema: Any) -> None:
    """So the cache of grammars has a bound in bytes."""
    compiled = backend(name).compile("json", json.dumps(schema))
    before = allocated()
    new, num_bytes = backend(name).load(compiled)
    num_taken = allocated() - before
    assert new().mask() is not None
    assert num_bytes > num_taken / 2
