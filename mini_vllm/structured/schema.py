"""What of a wanted form is refused before anything is compiled, and which back end can take the
rest exactly.

xgrammar compiles some schemas into a grammar that allows more or less than they do. Here are the
keywords that it takes exactly, so a schema with more goes to llguidance, which refuses by name what
it does not know; for_guidance() writes what it reads wrongly in another way. test_exact.py is the
proof: what is accepted parses and validates, and each value that validates can be written. What a
stranger sends is bounded in bytes, depth, alternatives and values. Source:
has_xgrammar_unsupported_json_features in vllm/v1/structured_output/backend_xgrammar.py.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from mini_vllm.errors import GrammarError, shown
from mini_vllm.params import StructuredOutputs
from mini_vllm.structured.subschemas import (
    JSON_TYPES,
    TO_LIST,
    TO_MAP,
    Schema,
    check_ends,
    schemas_in,
    types_of,
)

MAX_BYTES = 1 << 17  # of the schema, the regex, the grammar, or all choices
MAX_DEPTH = 32  # of schemas within schemas
MAX_BRANCHES = 1024  # alternatives and properties, all together
MAX_VALUES = 1024  # of enums, all together, and choices
# alternatives, properties and values, from which on xgrammar takes seconds and llguidance does not
LARGE = 32

SAY_NOTHING = frozenset(
    "$comment $defs $schema default definitions deprecated description examples readOnly title "
    "writeOnly".split()
)
NAMING = {"patternProperties", "properties", "required"}
ALONE = ("$ref", "anyOf", "const", "enum")  # beside these xgrammar looks at nothing
OF_TYPE = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "prefixItems", "minItems", "maxItems"},
    # to its lengths and patterns belong texts with bare control characters, and none with an escape
    "string": set(),
    "integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
    "number": set(),  # between bounds it writes six digits behind the point
    "boolean": set(),
    "null": set(),
}
MAX_INT64 = 2**63 - 1  # xgrammar writes a larger integer as a float
# escapes and sets, which all libraries read alike, and what of the rest they do not: a set within
# a set, what is left of two, a** and a*+, which is possessive
CLEAR = re.compile(r"\\.|\[\^?\]?(\\.|(?!&&|--|~~)[^]\\[])*]", re.DOTALL)
MISREAD = re.compile(r"\[|[*+?}](\??[*+{]|\?\?)|\\\Z")
EBNF_RULE = re.compile(r"(?m)^\s*[\w-]+\s*::=")  # else it is Lark
MAX_EXACT = 999_999_999_999_999  # llguidance reads numbers as floats, which are exact up to here
# it reads 15 digits exactly, and no place behind the 22nd
NUM_DIGITS, MIN_PLACE = 15, -22
LEAST_STEP, SMALLEST = 1e-14, 1e-20  # how far a number is from an exclusive bound, or from 0
SHAPES: dict[Any, str] = {  # of the values of keywords
    int: "maxItems maxLength maxProperties minItems minLength minProperties",
    int | float: "exclusiveMaximum exclusiveMinimum maximum minimum multipleOf",
    list: "allOf anyOf enum oneOf prefixItems required",
    str: "$ref format pattern",
    Mapping: " ".join(TO_MAP),
}

# Of these llguidance takes more than there is: 29 February in every year, the year 0, second 60,
# and names of any length.
DATE = (
    "(([0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)-(02-(0[1-9]|1[0-9]|2[0-8])|(0[469]|11)-"
    "(0[1-9]|[12][0-9]|30)|(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01]))|([0-9]{2}(0[48]|[2468][048]|"
    "[13579][26])|(0[48]|[2468][048]|[13579][26])00)-02-29)"
)
TIME = "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
FORMATS = {
    "date": {"pattern": f"^{DATE}$"},
    "time": {"pattern": f"^{TIME}$"},
    "date-time": {"pattern": f"^{DATE}T{TIME}$"},
    "hostname": {"maxLength": 253},
}


def check_size(wanted: StructuredOutputs) -> None:
    """Raises GrammarError, with the value and the limit, for what is too long to be read at all."""
    kind, text = wanted.key
    _check_limit(kind, len(text.encode(errors="replace")), "bytes", MAX_BYTES)
    _check_limit(kind, len(wanted.choice or ()), "texts", MAX_VALUES)


def fit_backends(wanted: StructuredOutputs, backend: str) -> list[str]:
    """The back ends that take a form exactly, in the order in which to try them.

    backend: of EngineConfig.structured_outputs_backend. It reads all of the text, and Python's re
    reads its regexes, which may take without end: it runs in the worker alone. Raises GrammarError
    for what is no form, too large to be compiled, or taken exactly by none.
    """
    _check(wanted)
    kind, text = wanted.key
    names = possible_backends(kind, backend)
    why_not = {
        "xgrammar": xgrammar_would_ignore(wanted),
        "guidance": guidance_would_miss(wanted),
    }
    unfit = [why for name in names if (why := why_not.get(name))]
    names = [name for name in names if not why_not.get(name)]
    if backend == "auto" and kind == "grammar":
        names = ["xgrammar" if EBNF_RULE.search(text) else "guidance"]
    # whichever is quick
    elif backend == "auto" and (kind == "regex" or measure(wanted) > LARGE):
        names.reverse()
    if not names:
        raise GrammarError(f"structured: json has {' and '.join(unfit)}")
    return names


def possible_backends(kind: str, backend: str) -> list[str]:
    """The back ends that know a kind of form. Raises GrammarError if there is none."""
    if backend == "automaton" and kind != "choice":
        raise GrammarError(
            f"structured: {kind} needs xgrammar or guidance; automaton takes choice alone"
        )
    every = ["xgrammar", "guidance"] + ["automaton"] * (kind == "choice")
    return every if backend == "auto" else [backend]


def _check(wanted: StructuredOutputs) -> None:
    """Raises GrammarError for what is no schema or too large to be compiled, and for a regex that
    libraries read in several ways, or take though it is none: foo**, [[:alpha:]], [a-z&&[^b]], a*+.
    """
    kind, text = wanted.key
    if kind == "json" and (wrong := wrong_in(json.loads(text))):
        raise GrammarError(f"structured: json {shown(text)} is no schema: {wrong} is wrong")
    if kind == "grammar" and "%json" in text:
        raise GrammarError(
            "structured: grammar has %json, whose schema nothing would check: ask for json alone"
        )
    measure(wanted)
    regexes = [text] if kind == "regex" else []
    for schema, _ in _schemas_of(wanted):
        regexes += [schema.get("pattern", ""), *schema.get("patternProperties", ())]
    for regex in regexes:
        if misread := MISREAD.search(CLEAR.sub("_", regex)):
            raise GrammarError(
                f"structured: regex {shown(regex)}: {misread[0]!r} is wrong, or read in several "
                "ways"
            )
    if kind == "json":
        check_ends(json.loads(text))


def measure(wanted: StructuredOutputs) -> int:
    """How large a schema is: its levels, alternatives, properties and values; 0 for another kind.

    Raises GrammarError at the first limit that it breaks.
    """
    most = num_branches = num_values = 0
    for schema, depth in _schemas_of(wanted):
        lists = [schema.get(name) for name in (*TO_LIST, *TO_MAP)]
        num_branches += sum(len(each) for each in lists if isinstance(each, list | dict))
        num_values += len(schema.get("enum", ()))
        most = max(most, depth)
        _check_limit("json", most, "levels of schemas", MAX_DEPTH)
        _check_limit("json", num_branches, "alternatives and properties", MAX_BRANCHES)
        _check_limit("json", num_values, "values in enums", MAX_VALUES)
    return most + num_branches + num_values


def _check_limit(kind: str, value: int, what: str, limit: int) -> None:
    if value > limit:
        raise GrammarError(
            f"structured: {kind} has {value:,} {what}, at most {limit:,} are allowed"
        )


def _schemas_of(wanted: StructuredOutputs) -> Iterator[tuple[Schema, int]]:
    """Those of a wanted form; none if it is no schema."""
    kind, text = wanted.key
    return schemas_in(json.loads(text) if kind == "json" else None)


def xgrammar_would_ignore(wanted: StructuredOutputs) -> str | None:
    """What of a schema xgrammar may not take exactly, by name; None if it takes all."""
    for schema, _ in _schemas_of(wanted):
        if name := _inexact(schema):
            return f"{name}, which xgrammar would ignore"
    return None


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
            for number in numbers_in(schema[alone])
        ):
            return f"{alone} of more than 64 bits"
        beside = [name for name in names if name != alone]
        if beside == ["type"] and alone in ("const", "enum") and _are_of_type(schema, alone):
            return None
        return f"{beside[0]} beside {alone}" if beside else None
    if "type" not in schema:
        return names[0] if names else None
    types = types_of(schema)
    known = OF_TYPE.get(str(types[0]), set()) if len(types) == 1 else set()
    if unknown := [name for name in names if types == [] or name not in {*known, "type"}]:
        return unknown[0]
    if isinstance(schema.get("items"), list):
        return "items"
    # without items it ends an array where its prefix ends, or where it begins
    bare = [name for name in names if name.endswith("Items") and "items" not in schema]
    prefix = schema.get("prefixItems")
    if bare and not (prefix and schema.get("maxItems") == len(prefix)):
        return f"{bare[0]} without items"
    properties = schema.get("properties")
    if properties and schema.get("additionalProperties", False) is not False:
        return "additionalProperties beside properties"
    is_known = properties and set(map(str, schema.get("required", ()))) <= set(properties)
    return "required" if "required" in schema and not is_known else None


def guidance_would_miss(wanted: StructuredOutputs) -> str | None:
    """What of a schema llguidance may not take exactly, and why; None if it takes all."""
    for schema, _ in _schemas_of(wanted):
        own = {name: schema[name] for name in schema.keys() - SAY_NOTHING - {*TO_MAP, *TO_LIST}}
        for number in numbers_in(own):
            _, digits, place = Decimal(repr(number)).normalize().as_tuple()
            if abs(number) > MAX_EXACT or len(digits) > NUM_DIGITS or int(place) < MIN_PLACE:
                return f"{number}, which guidance would round"
        least = schema.get("minProperties", 0)
        if least > len(schema.get("required", ())) + 1:
            return f"minProperties {least}, for which guidance would count a name twice"
    return None


def for_guidance(text: str) -> tuple[str, str]:
    """A schema as llguidance takes it exactly, and which escapes its strings may have.

    An object with properties has no more of them unless it says so, as xgrammar has it, where no
    schema is put together of several. Where it may have more, no character but those of short
    escapes is escaped, since llguidance would take a name in another spelling for another name.
    """
    whole = json.loads(text)
    schemas: list[Any] = [schema for schema, _ in schemas_in(whole)]
    is_one = not any(
        "allOf" in schema
        or "oneOf" in schema  # a closed object is no part of what an open one excludes
        or (schema.keys() & NAMING and schema.keys() & {"$ref", "anyOf"})
        for schema in schemas
    )
    escapes = 'nrbtf\\"u'
    for schema in schemas:
        schema.pop("x-guidance", None)  # its own options: what is not exact among them
        if is_one and "properties" in schema and "patternProperties" not in schema:
            schema.setdefault("additionalProperties", False)
        if schema.keys() & NAMING and schema.get("additionalProperties", True) is not False:
            escapes = 'nrbtf\\"'
        _write_bounds(schema)
        if exact := FORMATS.get(schema.get("format")):
            schema["allOf"] = [*schema.get("allOf", ()), exact]
    return json.dumps(whole), escapes


def _write_bounds(schema: dict[str, Any]) -> None:
    """Say the bounds of a number so that llguidance takes them exactly.

    4.99999999999999999 is below an exclusive bound of 5 and is read as 5, so 4.99999999999995 is
    a bound, too. And llguidance allows 7.80 below 7.85, but not 7.8, so that is an alternative.
    """
    for name, sign, tighter in (("minimum", 1, max), ("maximum", -1, min)):
        exclusive = f"exclusive{name.title()}"
        bound = schema.get(exclusive, 0)
        if exclusive in schema and schema.get("type") != "integer":
            bound += sign * (abs(bound) * LEAST_STEP + SMALLEST)
            schema[name] = tighter(bound, schema.get(name, bound))
    if schema.get("type") == "number" and schema.keys() <= {
        *SAY_NOTHING,
        "type",
        *OF_TYPE["integer"],
    }:
        low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
        shorter = {
            number
            for bound in (low, high)
            for place in range(1, -MIN_PLACE)
            if bound % 1 > 0
            and low <= (number := math.trunc(bound * 10**place) / 10**place) <= high
        }
        if shorter:
            schema["anyOf"] = [dict(schema), {"enum": [*shorter]}]


def numbers_in(value: Any) -> list[float]:
    """All numbers of a value of JSON; whatever stands behind forty digits makes none small."""
    found: list[float] = []
    json.loads(
        json.dumps(value),
        parse_int=lambda digits: found.append(int(digits[:40])),
        parse_float=lambda digits: found.append(float(digits)),
    )
    return found


def _are_of_type(schema: Schema, name: str) -> bool:
    """Whether every value of an enum, or the const, is of the schema's type."""
    values = schema[name] if name == "enum" else [schema[name]]
    types = types_of(schema)
    found = {JSON_TYPES[type(value)] for value in values}
    return found <= ({*types} | ({"integer"} if "number" in types else set()))


def wrong_in(schema: Schema) -> str | None:
    """The first keyword that has a value which it cannot have, by name; what is not known is not
    looked at.
    """
    for found, _ in schemas_in(schema):
        if {*map(str, types_of(found))} - OF_TYPE.keys():
            return "type"
        for kind, names in SHAPES.items():
            for name in names.split():
                value = found.get(name, kind)
                if value is not kind and (type(value) is bool or not isinstance(value, kind)):
                    return name
    return None


def calls_schema(functions: Sequence[Schema], most: int) -> dict[str, Any]:
    """The schema of a list of at least one call, at most so many: {"name": ..., "arguments": ...}.

    What the parameters of a function are is a definition, so that their references to themselves
    stay true.
    """
    calls, definitions = [], {}
    for number, function in enumerate(functions):
        path = f"#/$defs/{number}"
        parameters = function.get("parameters") or {"type": "object", "additionalProperties": False}
        definitions[str(number)] = definition = json.loads(json.dumps(parameters))
        schema: Any
        for schema, _ in schemas_in(definition):
            if re.match("#(/|$)", str(schema.get("$ref"))):
                schema["$ref"] = path + schema["$ref"][1:]
        properties = {"name": {"const": function["name"]}, "arguments": {"$ref": path}}
        calls.append(
            {
                "type": "object",
                "properties": properties,
                "required": [*properties],
                "additionalProperties": False,
            }
        )
    found = {"type": "array", "items": {"anyOf": calls}, "minItems": 1, "maxItems": most}
    return found | {"$defs": definitions}
