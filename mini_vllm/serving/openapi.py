"""The OpenAPI document of the server: requests by their pydantic models, answers as they are written in answers.py."""

from functools import cache
from typing import Any

from pydantic.json_schema import models_json_schema

from mini_vllm.serving.protocol import (
    ChatCompletionRequest,
    CompletionRequest,
    DetokenizeRequest,
    ModelRequest,
    TokenizeRequest,
)

Json = dict[str, Any]
TEXT: Json = {"type": "string"}
INTEGER: Json = {"type": "integer"}
NUMBER: Json = {"type": "number"}


def an_object(**properties: Json) -> Json:
    """An object that has exactly these."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def and_perhaps(schema: Json, **properties: Json) -> Json:
    """An object that may have these, too."""
    return schema | {"properties": schema["properties"] | properties}


def a_list(of: Json) -> Json:
    """An array of these."""
    return {"type": "array", "items": of}


def or_null(schema: Json) -> Json:
    """This, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def ref(name: str) -> Json:
    """The schema of that name."""
    return {"$ref": f"#/components/schemas/{name}"}


TOKEN: Json = {"token": TEXT, "logprob": {"type": "number", "maximum": 0}, "bytes": a_list(INTEGER)}
FINISH_REASON = {"type": "string", "enum": ["stop", "length", "tool_calls", "abort"]}
CHAT_CHOICE: Json = {
    "index": INTEGER,
    "logprobs": or_null(
        an_object(content=a_list(an_object(**TOKEN, top_logprobs=a_list(an_object(**TOKEN)))), refusal={"type": "null"})
    ),
    "finish_reason": or_null(FINISH_REASON),
}
ANSWER: Json = {"id": TEXT, "created": INTEGER, "model": TEXT, "object": TEXT}
COMPLETION_CHOICE = an_object(
    index=INTEGER,
    text=TEXT,
    logprobs=or_null(
        an_object(
            tokens=a_list(TEXT),
            token_logprobs=a_list(or_null(NUMBER)),
            top_logprobs=a_list(or_null({"type": "object", "additionalProperties": NUMBER})),
            text_offset=a_list(INTEGER),
        )
    ),
    finish_reason=or_null(FINISH_REASON),
)


def a_chunk(choice: Json) -> Json:
    """A chunk of a stream. It has a usage if the usage was asked for: null, and in the last chunk the figures."""
    return and_perhaps(an_object(**ANSWER, choices=a_list(choice)), usage=or_null(ref("Usage")))


MESSAGE = and_perhaps(
    an_object(role={"const": "assistant"}, content=or_null(TEXT), refusal={"type": "null"}),
    **{"tool_calls": a_list(ref("MessageToolCall")), "reasoning_content": TEXT},
)
PART_OF_A_CALL = and_perhaps(
    an_object(index=INTEGER, function=and_perhaps(an_object(arguments=TEXT), name=TEXT)),
    **{"id": TEXT, "type": {"const": "function"}},
)
DELTA = and_perhaps(an_object(), role=TEXT, content=TEXT, reasoning_content=TEXT, tool_calls=a_list(PART_OF_A_CALL))


SCHEMAS: Json = {
    "Error": an_object(error=an_object(message=TEXT, type=TEXT, param=or_null(TEXT), code=or_null(TEXT))),
    "Usage": an_object(
        prompt_tokens=INTEGER,
        completion_tokens=INTEGER,
        total_tokens=INTEGER,
        prompt_tokens_details=an_object(cached_tokens=INTEGER),
    ),
    "Model": an_object(id=TEXT, object={"const": "model"}, created=INTEGER, owned_by=TEXT, max_model_len=INTEGER),
    "Models": an_object(object={"const": "list"}, data=a_list(ref("Model"))),
    "Health": an_object(status=TEXT),
    "ChatCompletion": an_object(
        **ANSWER, choices=a_list(an_object(message=MESSAGE, **CHAT_CHOICE)), usage=ref("Usage")
    ),
    "ChatCompletionChunk": a_chunk(an_object(delta=DELTA, **CHAT_CHOICE)),
    "Completion": an_object(**ANSWER, choices=a_list(COMPLETION_CHOICE), usage=ref("Usage")),
    "CompletionChunk": a_chunk(COMPLETION_CHOICE),
    "Tokens": an_object(count=INTEGER, max_model_len=INTEGER, tokens=a_list(INTEGER))
    | {"additionalProperties": a_list(TEXT)},
    "Text": an_object(prompt=TEXT),
}
ROUTES: list[tuple[str, str, str, type[ModelRequest] | None, str]] = [
    ("get", "/health", "Whether the server can answer", None, "Health"),
    ("get", "/v1/models", "The model that is served", None, "Models"),
    ("post", "/v1/chat/completions", "Answer a conversation", ChatCompletionRequest, "ChatCompletion"),
    ("post", "/v1/completions", "Complete texts or token ids", CompletionRequest, "Completion"),
    ("post", "/tokenize", "Token ids of a text or a conversation", TokenizeRequest, "Tokens"),
    ("post", "/detokenize", "The text of token ids", DetokenizeRequest, "Text"),
]


@cache
def openapi_document() -> Json:
    """The document, which is made once."""
    models = [(kind, "validation") for *_, kind, _ in ROUTES if kind is not None]
    _, requests = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    return {
        "openapi": "3.1.0",
        "info": {"title": "mini_vllm", "version": "1"},
        "paths": {
            path: {method: _operation(summary, request, answer)} for method, path, summary, request, answer in ROUTES
        },
        "components": {
            "schemas": SCHEMAS | requests["$defs"],
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}, {}],
    }


def _operation(summary: str, request: type[ModelRequest] | None, answer: str) -> Json:
    good: Json = {"application/json": {"schema": ref(answer)}}
    if answer.endswith("Completion"):
        good["text/event-stream"] = {"schema": TEXT}
    refusal = {"description": "A refusal or a failure", "content": {"application/json": {"schema": ref("Error")}}}
    if answer == "Health":
        refusal = {"description": "Not now", "content": {"application/json": {"schema": ref("Health")}}}
    operation: Json = {
        "summary": summary,
        "responses": {"200": {"description": "The answer", "content": good}, "default": refusal},
    }
    if request is not None:
        body = {"application/json": {"schema": ref(request.__name__)}}
        operation["requestBody"] = {"required": True, "content": body}
    return operation
