"""What of a wanted form is refused before anything is compiled, and which back end can take the
rest exactly.

xgrammar compiles some schemas into a grammar that allows more than they do: it passes over keywords
that it does not know. Here are the keywords that it takes exactly, so a schema with more goes to
llguidance, which refuses by name what it does not know. What a stranger sends is bounded in bytes,
depth, alternatives and values. Source: has_xgrammar_unsupported_json_features in
vllm/v1/structured_output/backend_xgrammar.py.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from mini_vllm.errors import GrammarError, shown
from mini_vllm.params import StructuredOutputs

MAX_BYTES = 1 << 17  # of the schema, the regex, the grammar, or all choices
MAX_DEPTH = 32  # of schemas within schemas
MAX_BRANCHES = 1024  # alternatives and properties, all together
MAX_VALUES = 1024  # of enums, all together, and choices
# alternatives, properties and values, from which on xgrammar takes seconds and llguidance does not
LARGE = 256

TO_ONE = ("additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then")
TO_ONE_MORE = ("additionalItems", "unevaluatedItems", "unevaluatedProperties")
TO_LIST = ("allOf", "anyOf", "items", "oneOf", "prefixItems")
TO_MAP = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
SAY_NOTHING = frozenset(
    "$comment $defs $schema default definitions deprecated description examples readOnly title "
    "writeOnly".split()
)
ALONE = ("$ref", "anyOf", "const", "enum")  # beside these xgrammar looks at nothing
OF_TYPE = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "prefixItems", "minItems", "maxItems"},
    # to its patterns belong texts with a bare quote or backslash
    "string": {"minLength", "maxLength"},
    "integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    "boolean": set(),
    "null": set(),
}
MAX_INT64 = 2**63 - 1  # xgrammar writes a larger integer as a float
# what Python's re says of a regex
WRONG_ANYWHERE = ("multiple repeat", "bad escape (end of pattern)")
MAX_EXACT = 10**15  # llguidance reads numbers as floats, which are exact up to here
JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}

Schema = Mapping[str, Any]


class Size(NamedTuple):
    """How large a schema is."""

    depth: int = 0  # of schemas within schemas
    num_branches: int = 0  # alternatives and properties
    num_values: int = 0  # in enums


def check(wanted: StructuredOutputs) -> None:
    """Raises GrammarError, with the value and the limit, for what is too large to be compiled at
    all, or no regex.
    """
    kind, text = wanted.key
    if (num_bytes := len(text.encode(errors="replace"))) > MAX_BYTES:
        raise GrammarError(
            f"structured: {kind} has {num_bytes:,} bytes, at most {MAX_BYTES:,} are allowed"
        )
    if kind == "choice" and len(wanted.choice or ()) > MAX_VALUES:
        raise GrammarError(
            f"structured: choice has {len(wanted.choice or ()):,} texts, at most {MAX_VALUES:,} "
            "can be"
        )
    measure(wanted)
    schemas = (schema for schema, _ in schemas_in(json.loads(text))) if kind == "json" else ()
    for regex in (text,) if kind == "regex" else (schema.get("pattern") for schema in schemas):
        _check_regex(regex)


def measure(wanted: StructuredOutputs) -> Size:
    """How large a schema is; nothing for another kind.

    Raises GrammarError at the first limit that it breaks.
    """
    kind, text = wanted.key
    size = Size()
    for schema, depth in schemas_in(json.loads(text)) if kind == "json" else ():
        lists = [schema.get(name) for name in (*TO_LIST, *TO_MAP)]
        num_branches = sum(len(each) for each in lists if isinstance(each, list | dict))
        num_values = len(schema["enum"]) if isinstance(schema.get("enum"), list) else 0
        size = Size(
            max(size.depth, depth), size.num_branches + num_branches, size.num_values + num_values
        )
        for what, value, limit in (
            ("levels of schemas", size.depth, MAX_DEPTH),
            ("alternatives and properties", size.num_branches, MAX_BRANCHES),
            ("values in enums", size.num_values, MAX_VALUES),
        ):
            if value > limit:
                raise GrammarError(
                    f"structured: json has at least {value:,} {what}, at most {limit:,} are allowed"
                )
    return size


def _check_regex(regex: object) -> None:
    """Raises GrammarError for what a library would take without a word, though it is no regex:
    foo**.
    """
    with suppress(RecursionError, OverflowError):
        try:
            re.compile(regex if isinstance(regex, str) else "")
        except re.error as error:
            if error.msg in WRONG_ANYWHERE:  # another one may be right in another dialect
                raise GrammarError(f"structured: regex {shown(regex)}: {error}") from error


def schemas_in(schema: Any) -> Iterator[tuple[Schema, int]]:
    """A schema and those within it, each with its depth.

    The outer ones come first, so a limit ends the walk early.
    """
    stack = [(schema, 1)]
    while stack:
        found, depth = stack.pop()
        if not isinstance(found, Mapping):
            continue
        yield found, depth
        inner = [found.get(name) for name in (*TO_ONE, *TO_ONE_MORE)]
        for name in TO_LIST:
            inner += found[name] if isinstance(found.get(name), list) else ()
        for name in TO_MAP:
            inner += found[name].values() if isinstance(found.get(name), Mapping) else ()
        stack += [(each, depth + 1) for each in inner]


def xgrammar_would_ignore(wanted: StructuredOutputs) -> str | None:
    """What of a schema xgrammar may not take exactly, by name; None if it takes all."""
    kind, text = wanted.key
    if kind != "json":
        return None
    return next(
        (name for schema, _ in schemas_in(json.loads(text)) if (name := _inexact(schema))), None
    )


def _inexact(schema: Schema) -> str | None:
    """The first keyword of one schema, not of those within it, that xgrammar may not take
    exactly.
    """
    names = [name for name in schema if name not in SAY_NOTHING]
    if alone := next((name for name in ALONE if name in schema), None):
        if schema[alone] == []:
            return f"an empty {alone}"
        if any(
            isinstance(number, int) and abs(number) > MAX_INT64
            for number in numbers_in(json.dumps(schema[alone]))
        ):
            return f"{alone} of more than 64 bits"
        beside = [name for name in names if name != alone]
        if beside == ["type"] and alone in ("const", "enum") and _are_of_type(schema, alone):
            return None
        return f"{beside[0]} beside {alone}" if beside else None
    if "type" not in schema:
        return names[0] if names else None
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    known = OF_TYPE.get(types[0], set()) if len(types) == 1 and isinstance(types[0], str) else set()
    if unknown := [name for name in names if types == [] or (name not in known and name != "type")]:
        return unknown[0]
    if isinstance(schema.get("items"), list):
        return "items"
    properties = schema.get("properties")
    if properties and schema.get("additionalProperties", False) is not False:
        return "additionalProperties beside properties"
    missing = set(schema.get("required") or ()) - set(properties or ())
    return "required" if missing else None


def guidance_would_round(wanted: StructuredOutputs) -> str | None:
    """A number of a schema that llguidance may not take exactly; None if it takes all."""
    kind, text = wanted.key
    return (
        next((str(each) for each in numbers_in(text) if abs(each) > MAX_EXACT), None)
        if kind == "json"
        else None
    )


def numbers_in(text: str) -> list[float]:
    """All numbers of a text of JSON; whatever stands behind forty digits makes none small."""
    found: list[float] = []

    def parse_int(digits: str) -> None:
        found.append(int(digits[:40]))

    def parse_float(digits: str) -> None:
        found.append(float(digits))

    json.loads(text, parse_int=parse_int, parse_float=parse_float)
    return found


def _are_of_type(schema: Schema, name: str) -> bool:
    """Whether every value of an enum, or the const, is of the schema's type."""
    values = schema[name] if name == "enum" else [schema[name]]
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    found = {JSON_TYPES.get(type(value), "object") for value in values}
    return found <= ({*types} | ({"integer"} if "number" in types else set()))


def wrong_in(schema: Schema) -> str | None:
    """The first keyword that has a value which it cannot have, by name; what is not known is not
    looked at.
    """
    for found, _ in schemas_in(schema):
        kinds = found.get("type", [])
        if any(kind not in (*OF_TYPE,) for kind in (kinds if isinstance(kinds, list) else [kinds])):
            return "type"
        for name, kind in (("properties", Mapping), ("required", list), ("enum", list)):
            if name in found and not isinstance(found[name], kind):
                return name
    return None


def calls_schema(functions: Sequence[Schema], most: int | None) -> dict[str, Any]:
    """The schema of a list of at least one call, at most so many: {"name": ..., "arguments": ...}.

    What the parameters of a function are is a definition, so that their references to themselves
    stay true.
    """
    calls, definitions = [], {}
    for number, function in enumerate(functions):
        path = f"#/$defs/{number}"
        parameters = function.get("parameters") or {
            "type": "object",
            "properties": {},
            "additionalProperties": False,
        }
        definitions[str(number)] = definition = json.loads(json.dumps(parameters))
        schema: Any
        for schema, _ in schemas_in(definition):
            if re.match("#(/|$)", str(schema.get("$ref"))):
                schema["$ref"] = path + schema["$ref"][1:]
        properties = {"name": {"const": function["name"]}, "arguments": {"$ref": path}}
        call = {
            "type": "object",
            "properties": properties,
            "required": [*properties],
            "additionalProperties": False,
        }
        calls.append(call)
    found = {"type": "array", "items": {"anyOf": calls}, "minItems": 1, "$defs": definitions}
    return found if most is None else found | {"maxItems": most}


def is_lark(grammar: str) -> bool:
    """Whether a grammar is Lark and not EBNF. Source: grammar_is_likely_lark of vLLM."""
    return "::=" not in grammar
