"""The schemas within a schema, and whether a text that one of them describes ever ends."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from mini_vllm.errors import GrammarError, shown

TO_ONE = (
    "additionalItems additionalProperties contains else if not propertyNames then unevaluatedItems "
    "unevaluatedProperties".split()
)
TO_LIST = "allOf anyOf items oneOf prefixItems".split()  # items is one schema, too
TO_MAP = "$defs definitions dependentSchemas patternProperties properties".split()

JSON_TYPES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}
Schema = Mapping[str, Any]


def types_of(schema: Schema) -> list[Any]:
    """The types that a schema names."""
    types = schema.get("type", [])
    return types if isinstance(types, list) else [types]


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
        inner: list[Any] = []
        for name in (*TO_ONE, *TO_LIST):
            inner += each if isinstance(each := found.get(name), list) else [each]
        for name in TO_MAP:
            inner += each.values() if isinstance(each := found.get(name), Mapping) else ()
        stack += [(each, depth + 1) for each in inner]


def check_ends(whole: Schema) -> None:
    """Raises GrammarError for a schema that needs itself: {"$ref": "#"}. A library takes it, and
    a model then writes objects in objects without end, or half of one and knows no next token.

    A schema ends if all that it needs does, so those that do are found from the inside, until no
    more are.
    """
    left = [schema for schema, _ in schemas_in(whole)]
    endless, num_before = {*map(id, left)}, 0
    while len(left) != num_before:
        num_before = len(left)
        for schema in left:
            if all(
                any(id(each) not in endless for each in some) for some in _needed(schema, whole)
            ):
                endless.discard(id(schema))
        left = [schema for schema in reversed(left) if id(schema) in endless]
    if left:
        raise GrammarError(f"structured: json {shown(left[0])} needs itself, so it never ends")


def _needed(schema: Schema, whole: Schema) -> Iterator[list[Any]]:
    """All that a schema needs, each as a list of schemas of which one is enough. What several
    of an allOf need together is not seen.
    """
    for name in ("anyOf", "oneOf"):
        if some := [each for each in schema.get(name, ()) if each is not False]:
            yield some
    every = [*schema.get("allOf", ()), _target(whole, schema.get("$ref", ""))]
    if types_of(schema) == ["object"]:
        for name in schema.get("required", ()):
            every += _values(schema, str(name))
    if types_of(schema) == ["array"]:
        items = [*schema.get("prefixItems", ()), schema.get("items")]
        every += items[: schema.get("minItems", 0)]
    yield from ([each] for each in every)


def _values(schema: Schema, name: str) -> list[Any]:
    """The schemas of a property's value."""
    found = [each for known, each in schema.get("properties", {}).items() if known == name]
    for pattern, each in schema.get("patternProperties", {}).items():
        with suppress(re.error):  # one that only a library can read
            found += [each] if re.search(pattern, name) else []
    return found or [schema.get("additionalProperties")]


def _target(whole: Any, reference: str) -> Any:
    """What a reference leads to; None if that is not here."""
    place, *names = reference.split("/")
    if place != "#":
        return None
    for name in names:
        whole = whole.get(name) if isinstance(whole, Mapping) else None
    return whole
