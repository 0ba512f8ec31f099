"""The OpenAPI document of the server, made of the types that its handlers take and give."""

from collections.abc import Callable, Iterable, Mapping
from types import UnionType
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from mini_vllm.serving.asgi import EventStream
from mini_vllm.serving.openai.protocol import ChatCompletionChunk, CompletionChunk, Error, Health

Json = dict[str, Any]
REFERENCE = "#/components/schemas/{model}"


class ClosedObjects(GenerateJsonSchema):
    """Schemas in which an answer has the fields of its type and no other ones."""

    def typed_dict_schema(self, schema: Any) -> Json:
        return super().typed_dict_schema(schema) | {"additionalProperties": False}


def openapi_document(handlers: Mapping[str, Callable[..., Any]]) -> Json:
    """The document. handlers: by path; one that takes a body as `asked` answers to POST."""
    kinds: list[Any] = [Error, ChatCompletionChunk, CompletionChunk]
    paths: Json = {}
    for path, handler in handlers.items():
        hints = get_type_hints(handler)
        body, returned = hints.get("asked"), hints["return"]
        answer, *others = get_args(returned) if isinstance(returned, UnionType) else (returned,)
        good = in_json(answer)
        if EventStream in others:
            good["text/event-stream"] = {}  # OpenAPI 3.1 has no schema for one event of many
        refused = in_json(Health if answer is Health else Error)
        refusal = {"description": "A refusal or a failure", "content": refused}
        operation: Json = {
            "summary": (handler.__doc__ or "").partition(".")[0],
            "responses": {
                "200": {"description": "The answer", "content": good},
                "default": refusal,
            },
        }
        if body is not None:
            operation["requestBody"] = {"required": True, "content": in_json(body)}
            kinds.append(body)
        kinds.append(answer)
        paths[path] = {"get" if body is None else "post": operation}
    return {
        "openapi": "3.1.0",
        "info": {"title": "mini_vllm", "version": "1"},
        "paths": paths,
        "components": {
            "schemas": schemas_of(kinds),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}, {}],
    }


def schemas_of(kinds: Iterable[Any]) -> Json:
    """The schemas of these types, by name, and of the types in them."""
    _, schemas = TypeAdapter.json_schemas(
        [(kind, "validation", TypeAdapter(kind)) for kind in kinds],
        ref_template=REFERENCE,
        schema_generator=ClosedObjects,
    )
    return dict(schemas["$defs"])


def in_json(kind: Any) -> Json:
    """A body of this type, or a list of it."""
    [item] = get_args(kind) or (kind,)
    schema: Json = {"$ref": REFERENCE.format(model=item.__name__)}
    if item is not kind:
        schema = {"type": "array", "items": schema}
    return {"application/json": {"schema": schema}}
