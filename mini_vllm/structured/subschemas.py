"""The schemas within a schema, and whether a text that one of them describes ever ends."""

from collections.abc import Iterator, Mapping
from typing import Any

from mini_vllm.errors import GrammarError, shown

TO_ONE = (
    "additionalItems additionalProperties contains else if not propertyNames then unevaluatedItems "
    "unevaluatedProperties".split()
)
TO_LIST = "allOf anyOf items oneOf prefixItems".split()  # items is one schema, too
TO_MAP = "$defs definitions dependentSchemas patternProperties properties".split()

Schema = Mapping[str, Any]


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
    knows no next token when a model has written half of a text.

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
    """All that a schema needs, each as a list of schemas of which one is enough."""
    for name in ("anyOf", "oneOf"):
        if schema.get(name):
            yield schema[name]
    every = [*schema.get("allOf", ())]
    if "$ref" in schema:
        every.append(_target(whole, schema["$ref"]))
    if schema.get("type") == "object":
        every += [
            schema.get("properties", {}).get(str(name)) for name in schema.get("required", ())
        ]
    if schema.get("type") == "array":
        items = [*schema.get("prefixItems", ()), schema.get("items")]
        every += items[: schema.get("minItems", 0)]
    yield from ([each] for each in every)


def _target(whole: Any, reference: str) -> Any:
    """What a reference leads to; None if that is not here."""
    for name in reference.split("/")[1:]:
        whole = whole.get(name) if isinstance(whole, Mapping) else None
    return whole
