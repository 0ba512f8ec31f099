"""What a client may send and what it gets, in OpenAI's shapes.

Requests are strict: a field that is not here, true for 1, or a value beyond its limit is refused with the field's name.
Source: OpenAI's API reference; vllm/entrypoints/openai/protocol.py for the fields that OpenAI does not have.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from mini_vllm.errors import InvalidParameterError, shown
from mini_vllm.params import SamplingParams, StructuredOutputs

ERROR_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


# Fields of OpenAI's API that are taken as null, and refused by name as anything else.
NOT_HERE = frozenset(
    "annotations audio best_of function_call functions metadata modalities prediction reasoning_effort refusal "
    "service_tier store suffix verbosity web_search_options".split()
)


class ApiError(Exception):
    """An answer that says no. param: the field at fault; code: what a program may look for."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}
        kind = "server_error" if status >= 500 else ERROR_TYPES.get(status, "invalid_request_error")
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}


class Strict(BaseModel):
    """Base of what a client sends."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        """OpenAI's clients write null for what is absent, and send the server's own messages back, nulls included."""
        if isinstance(given, dict) and any(name in NOT_HERE and given[name] is None for name in given):
            return {name: value for name, value in given.items() if value is not None or name not in NOT_HERE}
        return given


def as_biases(given: dict[str, float]) -> dict[int, float]:
    """The biases by token id. Raises ApiError for a key that is none."""
    for key in given:
        if not key.isascii() or not key.isdigit() or len(key) > 10 or str(int(key)) != key:
            raise ApiError(400, f"logit_bias: a key must be a token id, got {shown(key)}", param="logit_bias")
    if len(given) > SamplingParams.MAX_BIASES:
        message = f"logit_bias has {len(given)} entries, at most {SamplingParams.MAX_BIASES} are allowed"
        raise ApiError(400, message, param="logit_bias")
    return {int(key): bias for key, bias in given.items()}


class StreamOptions(Strict):
    """include_usage: the last chunk of a stream tells the usage. continuous_usage_stats, of vLLM: all chunks do."""

    include_usage: bool = False
    continuous_usage_stats: bool | None = None


class JsonSchema(Strict):
    """A schema by a name, which the server does not look at. strict: the schema holds in any case."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    description: str | None = None
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool | None = None


class ResponseFormat(Strict):
    """The form of the text: anything, a JSON object, or JSON of a schema."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class StructuredOutputsField(Strict):
    """The form of the text, in vLLM's words; one of these. grammar: EBNF or Lark."""

    json_: Annotated[dict[str, Any] | str | None, Field(alias="json")] = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None


Stop = str | Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=4)]
TokenId = Annotated[int, Field(ge=0)]
MAX_PROMPTS = 1024
Prompts = Field(min_length=1, max_length=1 << 20)


class ModelRequest(Strict):
    """What every request may say: for which model it is. None is as good as absent."""

    model: str | None = None


class SharedRequest(ModelRequest):
    """The fields of chats and completions."""

    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=SamplingParams.MAX_N)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1)] | None = None
    """0 and -1 keep all."""
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = None
    """What is added to the logits of tokens, by token id as text."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-(1 << 63), le=(1 << 64) - 1)] | None = None
    stop: Stop | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=1e6)] | None = None
    max_tokens: Annotated[int, Field(ge=0)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=0)] | None = None
    """The newer name of max_tokens."""
    ignore_eos: bool | None = None
    user: str | None = None
    """The client's name for its user. The server does not look at it."""
    cache_salt: Annotated[str, Field(min_length=1)] | None = None
    """Requests with other salts share no blocks with this one."""
    priority: Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)] | None = None
    """Lower is sooner, with --policy priority."""
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputsField | None = None
    guided_json: dict[str, Any] | str | None = None
    """This and the next three: vLLM's older names for the fields of structured_outputs."""
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: str | None = None

    @field_validator("stop")
    @classmethod
    def _not_empty(cls, stop: Stop | None) -> Stop | None:
        if stop == "":
            raise ValueError("must not be empty")
        return stop

    @property
    def asked_max_tokens(self) -> int | None:
        """By either name."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    def sampling_options(self) -> dict[str, Any]:
        """What of the fields is one of SamplingParams."""
        names = (
            *("n", "temperature", "top_p", "min_p", "seed", "presence_penalty", "frequency_penalty"),
            *("repetition_penalty", "ignore_eos"),
        )
        options = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.logit_bias is not None:
            options["logit_bias"] = as_biases(self.logit_bias)
        if self.top_k is not None:
            options["top_k"] = max(self.top_k, 0)
        if self.stop is not None:
            options["stop"] = self.stop if isinstance(self.stop, str) else tuple(self.stop)
        if (form := self.form()) is not None:
            name, wanted = form
            try:
                options["structured"] = StructuredOutputs(**wanted)
            except InvalidParameterError as error:
                raise ApiError(400, str(error), param=name) from error
        return options

    def form(self) -> tuple[str, dict[str, Any]] | None:
        """The field that says which form the text has to have, and StructuredOutputs' options. None: any form.

        Raises ApiError if there are several, or a json_schema is missing or has no use.
        """
        found: dict[str, dict[str, Any]] = {}
        asked = self.response_format
        if asked is not None and (asked.type == "json_schema") != (asked.json_schema is not None):
            param = "response_format.json_schema"
            raise ApiError(400, f"{param} belongs to the type json_schema, got type {asked.type!r}", param=param)
        if asked is not None and asked.json_schema is not None:
            found["response_format"] = {"json": asked.json_schema.schema_}
        elif asked is not None and asked.type == "json_object":
            found["response_format"] = {"json_object": True}
        if self.structured_outputs is not None:
            found["structured_outputs"] = self.structured_outputs.model_dump(by_alias=True)
        for kind in ("json", "regex", "choice", "grammar"):
            if (value := getattr(self, f"guided_{kind}")) is not None:
                found[f"guided_{kind}"] = {kind: value}
        if len(found) > 1:
            raise ApiError(400, f"{' and '.join(found)} cannot be combined", param=[*found][1])
        return next(iter(found.items()), None)

    def request_options(self) -> dict[str, Any]:
        """What of the fields is an option of the request."""
        options = {"cache_salt": self.cache_salt, "priority": self.priority}
        return {name: value for name, value in options.items() if value is not None}


class TextPart(Strict):
    """A part of a message. There are parts of text alone."""

    type: Literal["text"]
    text: str


class CalledFunction(Strict):
    """The function of a call. arguments: JSON."""

    name: str
    arguments: str


class MessageToolCall(Strict):
    """A call in a message of the assistant."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction
    index: int | None = None
    """Of a call that was put together from a stream."""


class ChatMessage(Strict):
    """One message of a conversation; "developer" is OpenAI's newer word for "system"."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    name: str | None = None
    tool_calls: list[MessageToolCall] | None = None
    tool_call_id: str | None = None
    """Of a message of a tool: which call it answers."""
    reasoning_content: str | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "ChatMessage":
        if self.role != "assistant" and not self.content and self.content != "":
            raise ValueError(f"content of the role {self.role} must be a text or parts")
        if (self.tool_calls is not None or self.reasoning_content is not None) and self.role != "assistant":
            raise ValueError(f"tool_calls and reasoning_content belong to the role assistant, not to {self.role}")
        if (self.tool_call_id is not None) != (self.role == "tool"):
            raise ValueError(f"tool_call_id belongs to the role tool, and the role is {self.role}")
        return self

    def for_template(self) -> dict[str, Any]:
        """As chat templates know messages."""
        content = self.content
        text = "\n".join(part.text for part in content) if isinstance(content, list) else content or ""
        role = "system" if self.role == "developer" else self.role
        return self.model_dump(exclude_none=True) | {"role": role, "content": text}


class ChatCompletionRequest(SharedRequest):
    """The body of POST /v1/chat/completions."""

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    """max_tokens is absent: what fits."""
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=SamplingParams.MAX_LOGPROBS)] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    """none, auto, required, or {"type": "function", "function": {"name": ...}}."""
    parallel_tool_calls: bool | None = None

    def sampling_options(self) -> dict[str, Any]:
        options = super().sampling_options()
        if self.top_logprobs is not None and not self.logprobs:
            raise ApiError(400, "top_logprobs needs logprobs: true", param="top_logprobs")
        if self.logprobs:
            options["logprobs"] = self.top_logprobs or 0
        return options


class CompletionRequest(SharedRequest):
    """The body of POST /v1/completions. prompt: a text, token ids, or a list of these."""

    prompt: str | Annotated[list[str] | list[TokenId] | list[Annotated[list[TokenId], Field(min_length=1)]], Prompts]
    """max_tokens is absent: 16."""
    echo: bool | None = None
    """Whether the prompt stands before the completion, its tokens among the logprobs."""
    logprobs: Annotated[int, Field(ge=0, le=SamplingParams.MAX_LOGPROBS)] | None = None

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts, one or several."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if isinstance(self.prompt[0], int):
            return [[each for each in self.prompt if isinstance(each, int)]]
        return [each for each in self.prompt if not isinstance(each, int)]

    def sampling_options(self) -> dict[str, Any]:
        options = super().sampling_options()
        if self.logprobs is not None:
            options["logprobs"] = self.logprobs
            if self.echo:
                options["prompt_logprobs"] = self.logprobs
        return options


class TokenizeRequest(ModelRequest):
    """The body of POST /tokenize: a text or a conversation. Source: vllm's TokenizeCompletionRequest."""

    prompt: str | None = None
    messages: Annotated[list[ChatMessage], Field(min_length=1)] | None = None
    add_special_tokens: bool = True
    add_generation_prompt: bool = True
    return_token_strs: bool | None = None


class DetokenizeRequest(ModelRequest):
    """The body of POST /detokenize."""

    tokens: list[TokenId]


def parse(kind: type[ModelRequest], body: object) -> Any:
    """The body of a request as one of these. Raises ApiError that names the field, the value and the limit."""
    try:
        request = kind.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        param = _path(first["loc"])
        if first["type"] == "extra_forbidden":
            message = f"{shown(param)} is no field that this server knows"
            param = param[:100]
        elif first["type"] == "missing":
            message = f"{param} is missing"
        else:
            message = f"{param}: {first['msg']}, got {shown(first['input'])}"
        raise ApiError(400, message, param=param or None) from None
    if isinstance(request, TokenizeRequest) and (request.prompt is None) == (request.messages is None):
        raise ApiError(400, "one of prompt and messages must be given", param="prompt")
    if isinstance(request, SharedRequest):
        _check_together(request)
    return request


def _check_together(request: SharedRequest) -> None:
    """Fields that go together, or do not. Raises ApiError."""
    if request.stream_options is not None and not request.stream:
        raise ApiError(400, "stream_options needs stream: true", param="stream_options")
    old, new = request.max_tokens, request.max_completion_tokens
    if old is not None and new is not None and old != new:
        raise ApiError(400, f"max_tokens is {old} and max_completion_tokens {new}: give one", param="max_tokens")
    if request.asked_max_tokens == 0 and not getattr(request, "echo", None):
        raise ApiError(400, "max_tokens must be at least 1 without echo, got 0", param="max_tokens")


def _path(loc: tuple[int | str, ...]) -> str:
    """messages[0].role; of a value of several possible types what pydantic adds is left out."""
    path = ""
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part.isidentifier() and part not in ("str", "int", "float", "bool", "list"):
            path += f".{part}" if path else part
    return path
