"""What a client may send and what it gets, in OpenAI's shapes.

True for 1, and a value beyond its limit, are refused with the field's name; foreign_fields.py has
the fields that are not here. Source: OpenAI's API reference; for fields that OpenAI does not have,
vllm/entrypoints/openai/chat_completion/protocol.py and
vllm/entrypoints/openai/completion/protocol.py.
"""

from dataclasses import dataclass
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NotRequired,  # pydantic reads these alone before Python 3.12
    TypeVar,
)

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from typing_extensions import TypedDict

from mini_vllm.errors import InvalidParameterError, shown
from mini_vllm.params import SamplingParams, StructuredOutputs
from mini_vllm.serving.openai.foreign_fields import NEUTRAL, without_foreign
from mini_vllm.structured.schema import MAX_BYTES, MAX_VALUES

ERROR_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


@dataclass(eq=False)
class ApiError(Exception):
    """An answer that says no. param: the field at fault; code: what a program may look for."""

    status: int
    message: str
    param: str | None = None
    code: str | None = None
    headers: dict[str, str] | None = None

    @property
    def body(self) -> "Error":
        """What the client gets."""
        kind = (
            "server_error"
            if self.status >= 500
            else ERROR_TYPES.get(self.status, "invalid_request_error")
        )
        return {
            "error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        }


class Strict(BaseModel):
    """Base of what a client sends."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        """OpenAI's clients write null for what is absent, and send the server's own messages back,
        nulls included.
        """
        if not isinstance(given, dict) or None not in given.values():
            return given
        return {name: value for name, value in given.items() if value is not None}


class StreamOptions(Strict):
    """include_usage: the last chunk of a stream tells the usage. continuous_usage_stats, of vLLM:
    all chunks do.
    """

    include_usage: bool = False
    include_obfuscation: bool | None = None
    """Of OpenAI, which pads its events against who listens. These events have no padding."""
    continuous_usage_stats: bool | None = None


class JsonSchema(Strict):
    """A schema by a name, which the server does not look at. strict: the schema holds in any
    case.
    """

    name: Annotated[str, Field(min_length=1, max_length=64)]
    description: str | None = None
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool | None = None


class ResponseFormat(Strict):
    """The form of the text: anything, a JSON object, or JSON of a schema."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


def whole(given: Any) -> Any:
    """A number without a fraction as an integer, which 16.0 is in JSON Schema (draft 6).

    Up to 2**53, behind which a float is one of several integers.
    """
    exact = isinstance(given, float) and given.is_integer() and abs(given) < 1 << 53
    return int(given) if exact else given


WHOLE = BeforeValidator(whole)  # behind what bounds the number, or its schema has no bounds
NumLogprobs = Annotated[int, Field(ge=0, le=SamplingParams.MAX_LOGPROBS), WHOLE]
T = TypeVar("T")
# a list whose first mistake ends its validation: a million of them would take seconds
Many = Annotated[list[T], Field(fail_fast=True)]
FormText = Annotated[str, Field(max_length=MAX_BYTES)]
Choices = Annotated[Many[FormText], Field(max_length=MAX_VALUES)]


class StructuredOutputsField(Strict):
    """The form of the text, in vLLM's words; one of these. grammar: EBNF or Lark.

    closes, which vLLM has not: JSON ends within max_tokens.
    """

    json_: Annotated[dict[str, Any] | FormText | None, Field(alias="json")] = None
    regex: FormText | None = None
    choice: Choices | None = None
    grammar: FormText | None = None
    json_object: bool | None = None
    closes: bool = False

    @model_validator(mode="before")
    @classmethod
    def _has_no_more(cls, given: Any) -> Any:
        """Other fields change the form, so none is left out."""
        known = StructuredOutputs.__slots__
        for name in given if isinstance(given, dict) else ():
            if name not in known and given[name]:
                raise ValueError(f"the fields here are {', '.join(known)}, and not {shown(name)}")
        return given


SAMPLING_FIELDS = frozenset(
    "n temperature top_p top_k min_p seed presence_penalty frequency_penalty repetition_penalty "
    "stop ignore_eos min_tokens stop_token_ids allowed_token_ids skip_special_tokens "
    "include_stop_str_in_output bad_words prompt_logprobs".split()
)
MOST = {  # of OpenAI, and of this server
    "stop": (4, "stop strings"),
    "logit_bias": (SamplingParams.MAX_BIASES, "token ids"),
}
MAX_SALT = 1024
StopText = Annotated[str, Field(min_length=1)]
TokenId = Annotated[int, Field(ge=0)]
TokenIdText = Annotated[str, Field(pattern="^(0|[1-9][0-9]{0,9})$")]
REQUEST_ID = "^[!-~]{1,128}$"
MAX_PROMPTS = 1024
Prompts = Field(min_length=1, max_length=1 << 20)


class ModelRequest(Strict):
    """What every request may say: for which model it is. None is as good as absent."""

    NEUTRAL: ClassVar = NEUTRAL
    model: str | None = None


class GenerateRequest(ModelRequest):
    """The fields of all requests for a text."""

    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1), WHOLE] | None = None
    """0 and -1 keep all."""
    logit_bias: dict[TokenIdText, Annotated[float, Field(ge=-100, le=100)]] | None = None
    """What is added to the logits of tokens."""
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-(1 << 63), le=(1 << 64) - 1), WHOLE] | None = None
    stop: StopText | Many[StopText] | None = None
    include_stop_str_in_output: bool | None = None
    stop_token_ids: Many[TokenId] | None = None
    min_tokens: Annotated[int, Field(ge=0), WHOLE] | None = None
    skip_special_tokens: bool | None = None
    allowed_token_ids: Annotated[Many[TokenId], Field(min_length=1)] | None = None
    bad_words: Many[str] | None = None
    prompt_logprobs: NumLogprobs | None = None
    """The likeliest tokens at each place of the prompt, beside the one that is there."""
    return_token_ids: bool | None = None
    """Whether the answer tells the token ids of the prompt and of each choice."""
    return_tokens_as_token_ids: bool | None = None
    """Whether logprobs name tokens by their ids, as token_id:5."""
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=1e6)] | None = None
    ignore_eos: bool | None = None
    user: str | None = None
    """The client's name for its user. The server does not look at it, and puts in its place whose
    turn the request takes.
    """
    request_id: Annotated[str, Field(pattern=REQUEST_ID)] | None = None
    """What the answer's id ends with. The header X-Request-Id goes before it."""
    cache_salt: Annotated[str, Field(min_length=1, max_length=MAX_SALT)] | None = None
    """Requests with other salts share no blocks with this one."""
    priority: Annotated[int, Field(ge=-(1 << 31), lt=1 << 31), WHOLE] | None = None
    """Lower is sooner, with --policy priority."""
    structured_outputs: StructuredOutputsField | None = None

    @field_validator(*MOST, mode="before")
    @classmethod
    def _at_most(cls, given: Any, info: ValidationInfo) -> Any:
        most, what = MOST[str(info.field_name)]
        if isinstance(given, list | dict) and len(given) > most:
            raise ValueError(f"at most {most} {what} are allowed")
        return given


class SharedRequest(GenerateRequest):
    """The fields of chats and completions."""

    n: Annotated[int, Field(ge=1, le=SamplingParams.MAX_N), WHOLE] | None = None
    max_tokens: Annotated[int, Field(ge=0), WHOLE] | None = None
    max_completion_tokens: Annotated[int, Field(ge=0), WHOLE] | None = None
    """The newer name of max_tokens."""
    response_format: ResponseFormat | None = None
    guided_json: dict[str, Any] | FormText | None = None
    """This and the next three: vLLM's older names for the fields of structured_outputs."""
    guided_regex: FormText | None = None
    guided_choice: Choices | None = None
    guided_grammar: FormText | None = None

    @property
    def asked_max_tokens(self) -> int | None:
        """By either name."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    def sampling_options(self) -> dict[str, Any]:
        """What of the fields is one of SamplingParams."""
        options = self.model_dump(include={*SAMPLING_FIELDS}, exclude_none=True)
        if self.logit_bias is not None:
            options["logit_bias"] = {
                int(token_id): bias for token_id, bias in self.logit_bias.items()
            }
        if (form := self.form()) is not None:
            name, wanted = form
            try:
                options["structured"] = StructuredOutputs(**wanted)
            except InvalidParameterError as error:
                raise ApiError(400, str(error), name) from error
        return options

    def form(self) -> tuple[str, dict[str, Any]] | None:
        """The field that says which form the text has to have, and StructuredOutputs' options.

        None: any form.

        Raises ApiError if there are several, or a json_schema is missing or has no use.
        """
        found: dict[str, dict[str, Any]] = {}
        if (asked := self.response_format) is not None:
            if (asked.type == "json_schema") != (asked.json_schema is not None):
                param = "response_format.json_schema"
                raise ApiError(
                    400,
                    f"{param} and the type json_schema need each other, the type is {asked.type!r}",
                    param,
                )
            schema = asked.json_schema
            form = {"json_object": True} if schema is None else {"json": schema.schema_}
            if asked.type != "text":  # a client that sets no limit could not raise it
                found["response_format"] = form | {"closes": self.asked_max_tokens is None}
        if self.structured_outputs is not None:
            found["structured_outputs"] = self.structured_outputs.model_dump(by_alias=True)
        for kind in ("json", "regex", "choice", "grammar"):
            if (value := getattr(self, f"guided_{kind}")) is not None:
                found[f"guided_{kind}"] = {kind: value}
        if len(found) > 1:
            raise ApiError(400, f"{' and '.join(found)} cannot be combined", [*found][1])
        return next(iter(found.items()), None)

    def request_options(self) -> dict[str, Any]:
        """What of the fields is an option of the request."""
        found = self.model_dump(include={"cache_salt", "priority"}, exclude_none=True)
        return found | {"client": self.user or ""}


TEXTS = ("text", "input_text", "output_text", "refusal", "reasoning_text", "summary_text")


class TextPart(Strict):
    """A part of a message. There are parts of text alone."""

    type: Literal[TEXTS]  # type: ignore[valid-type]
    text: Annotated[str, Field(validation_alias=AliasChoices("text", "refusal"))]
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _is_text(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("type") not in TEXTS:
            raise ValueError("only parts of text can be read, of the type 'text'")
        return given


def text_of(content: str | list[TextPart]) -> str:
    """The text of all parts."""
    return content if isinstance(content, str) else "\n".join(part.text for part in content)


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
    content: str | Many[TextPart] | None = None
    name: str | None = None
    tool_calls: Many[MessageToolCall] | None = None
    tool_call_id: str | None = None
    """Of a message of a tool: which call it answers."""
    reasoning_content: str | None = None
    reasoning: str | None = None
    """The newer name of reasoning_content."""
    refusal: str | None = None
    """What the assistant has said in the place of content."""

    @model_validator(mode="after")
    def _says_something(self) -> "ChatMessage":
        if self.role != "assistant" and self.content is None:
            raise ValueError(f"content of the role {self.role} must be a text or parts")
        of_assistant = (self.tool_calls, self.reasoning_content, self.reasoning, self.refusal)
        if self.role != "assistant" and any(of_assistant):
            raise ValueError(
                "tool_calls, reasoning_content, reasoning and refusal belong to the role "
                f"assistant, not to {self.role}"
            )
        if (self.tool_call_id is not None) != (self.role == "tool"):
            raise ValueError(
                f"tool_call_id and the role 'tool' need each other, and the role is {self.role!r}"
            )
        return self

    def for_template(self) -> dict[str, Any]:
        """As chat templates know messages."""
        text = text_of(self.content or self.refusal or "")
        role = "system" if self.role == "developer" else self.role
        message = self.model_dump(exclude_none=True, exclude={"reasoning", "refusal"})
        if not self.tool_calls:  # a template may ask whether they are there
            message.pop("tool_calls", None)
        if self.reasoning is not None:
            message.setdefault("reasoning_content", self.reasoning)
        return message | {"role": role, "content": text}


# What a chat template gets from the server.
TEMPLATE_NAMES = frozenset(
    "messages tools documents chat_template add_generation_prompt continue_final_message tokenize "
    "return_dict return_assistant_tokens_mask sanitize_control_tokens tokenizer_kwargs self".split()
)


class ChatCompletionRequest(SharedRequest):
    """The body of POST /v1/chat/completions."""

    messages: Annotated[Many[ChatMessage], Field(min_length=1)]
    """max_tokens is absent: what fits."""
    logprobs: bool | None = None
    top_logprobs: NumLogprobs | None = None
    tools: Many[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    """none, auto, required, or {"type": "function", "function": {"name": ...}}."""
    parallel_tool_calls: bool | None = None
    add_generation_prompt: bool = True
    """Whether the template begins the assistant's turn."""
    continue_final_message: bool = False
    """Whether the answer goes on with the last message. Needs add_generation_prompt: false."""
    chat_template_kwargs: dict[str, Any] | None = None
    """Variables of the chat template, such as enable_thinking."""
    echo: bool | None = None
    """Whether the text of the last message stands before the answer, if one role wrote both."""

    def template_options(self) -> dict[str, Any]:
        """What the chat template is told, beside messages and tools.

        Raises ApiError for a variable that is the server's own.
        """
        variables = self.chat_template_kwargs or {}
        for name in variables:
            if name in TEMPLATE_NAMES:
                param = f"chat_template_kwargs.{name}"
                raise ApiError(400, f"{param} is no variable of a chat template", param)
        return {
            "add_generation_prompt": self.add_generation_prompt,
            "continue_final_message": self.continue_final_message,
            **variables,
        }

    def echoed(self) -> str:
        """The text that stands before each answer."""
        last = self.messages[-1]
        role = "assistant" if self.add_generation_prompt else last.role
        return last.for_template()["content"] if self.echo and last.role == role else ""

    def sampling_options(self) -> dict[str, Any]:
        options = super().sampling_options()
        if self.top_logprobs and not self.logprobs:
            raise ApiError(400, "top_logprobs needs logprobs: true", "top_logprobs")
        if self.logprobs:
            options["logprobs"] = self.top_logprobs or 0
        return options


class CompletionRequest(SharedRequest):
    """The body of POST /v1/completions. prompt: a text, token ids, or a list of these."""

    prompt: (
        str
        | Annotated[
            Many[str] | Many[TokenId] | Many[Annotated[Many[TokenId], Field(min_length=1)]], Prompts
        ]
    )
    """max_tokens is absent: 16."""
    add_special_tokens: bool | None = None
    """False: a text gets no token that the model expects around it, because it has them already."""
    echo: bool | None = None
    """Whether the prompt stands before the completion, its tokens among the logprobs."""
    logprobs: NumLogprobs | None = None

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts, one or several."""
        prompt: Any = self.prompt
        return [prompt] if isinstance(prompt, str) or isinstance(prompt[0], int) else prompt

    def sampling_options(self) -> dict[str, Any]:
        options = super().sampling_options()
        if self.logprobs is not None:
            options["logprobs"] = self.logprobs
            if self.echo:
                options.setdefault("prompt_logprobs", self.logprobs)
        return options


class TokenizeRequest(ModelRequest):
    """The body of POST /tokenize: a text or a conversation.

    Source: vllm's TokenizeCompletionRequest.
    """

    prompt: str | None = None
    messages: Annotated[Many[ChatMessage], Field(min_length=1)] | None = None
    add_special_tokens: bool = True
    add_generation_prompt: bool = True
    return_token_strs: bool | None = None


class DetokenizeRequest(ModelRequest):
    """The body of POST /detokenize."""

    tokens: Many[TokenId]


def parse(kind: type[ModelRequest], body: object, *, strict: bool = False) -> Any:
    """The body of a request as one of these. strict: a field that is not here is refused.

    Raises ApiError that names the field, the value and the limit.
    """
    if not strict and isinstance(body, dict):
        try:
            body = without_foreign(body, kind.model_fields.keys(), kind.NEUTRAL)
        except ValueError as error:
            param, why = error.args
            raise ApiError(400, f"{param} has no use here: {why}", param) from None
    try:
        request = kind.model_validate(body, extra="forbid" if strict else "ignore")
    except ValidationError as error:
        raise refusal_of(error) from None
    if isinstance(request, TokenizeRequest) and (request.prompt is None) == (
        request.messages is None
    ):
        raise ApiError(400, "one of prompt and messages must be given", "prompt")
    if isinstance(request, SharedRequest):
        _check_together(request)
    return request


def refusal_of(error: ValidationError) -> ApiError:
    """What was wrong first. Of a value that may be of several types, the one that fits best says
    what is wrong with it.
    """
    errors = error.errors(include_url=False)
    path = _path(errors[0]["loc"])
    first = max(
        (each for each in errors if _path(each["loc"]).startswith(path)),
        key=lambda each: (not each["type"].endswith("_type"), len(each["loc"])),
    )
    param = _path(first["loc"])[:100]
    if first["type"] == "extra_forbidden":
        message = f"{shown(param or first['loc'][-1])} is no field that this server knows"
    elif first["type"] == "missing":
        message = f"{param} is missing"
    else:
        said = first["msg"].removeprefix("Value error, ").partition(" or instance of ")[0]
        said = said.replace("dictionary", "object")
        message = f"{param or 'the body'}: {said}, got {shown(first['input'])}"
    return ApiError(400, message, param or None)


def _check_together(request: SharedRequest) -> None:
    """Fields that go together, or do not. Raises ApiError."""
    options = request.stream_options or StreamOptions()
    if options.include_usage and not request.stream:
        raise ApiError(400, "stream_options needs stream: true", "stream_options")
    if request.prompt_logprobs and request.stream:
        raise ApiError(400, "prompt_logprobs needs stream: false", "prompt_logprobs")
    old, new = request.max_tokens, request.max_completion_tokens
    if old is not None and new is not None and old != new:
        raise ApiError(
            400,
            f"max_tokens is {old} and max_completion_tokens {new}: give one",
            "max_tokens",
        )
    if request.asked_max_tokens == 0 and not getattr(request, "echo", None):
        raise ApiError(400, "max_tokens must be at least 1 without echo, got 0", "max_tokens")


def _path(loc: tuple[int | str, ...]) -> str:
    """messages[0].role; of a value of several possible types what pydantic adds is left out."""
    path = ""
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part.isidentifier() and part not in ("str", "int", "float", "bool", "list"):
            path += f".{part}" if path else part
    return path


# --- answers --------------------------------------------------------------------------------------

FinishReason = Annotated[
    str, WithJsonSchema({"type": "string", "enum": ["stop", "length", "tool_calls", "abort"]})
]


class ErrorFields(TypedDict):
    """What was wrong. param: the field at fault; code: what a program may look for."""

    message: str
    type: str
    param: str | None
    code: str | None


class Error(TypedDict):
    """The body of a refusal or a failure."""

    error: ErrorFields


class Health(TypedDict):
    """Whether the server can answer."""

    status: str


class Load(TypedDict):
    """How much a server has to do. Source: get_worker_load in vllm-router."""

    load: int


class Version(TypedDict):
    """Which server it is."""

    version: str


class Rendered(TypedDict):
    """A prompt as the engine gets it."""

    request_id: str
    token_ids: list[int]
    model: str


class Model(TypedDict):
    """A model. Its length is known once it is loaded."""

    id: str
    object: Literal["model"]
    created: int
    max_model_len: NotRequired[int]
    owned_by: str


class Models(TypedDict):
    """The models of the server."""

    object: Literal["list"]
    data: list[Model]


class Text(TypedDict):
    """The text of token ids."""

    prompt: str


class Tokens(TypedDict):
    """The token ids of a text. token_strs: their texts, if these were asked for."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: NotRequired[list[str]]


class PromptTokensDetails(TypedDict):
    """Tokens of the prompt that the first choice found in the prefix cache."""

    cached_tokens: int


class Usage(TypedDict):
    """How many tokens a request has taken so far."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


class TopLogprob(TypedDict):
    """A token that could stand at a place of a chat, and its log-probability."""

    token: str
    logprob: Annotated[float, Field(le=0)]
    bytes: list[int]


class ChatLogprob(TopLogprob):
    """A token of a chat, and the likeliest ones at its place."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(TypedDict):
    """The log-probabilities of a choice of a chat, one for each token."""

    content: list[ChatLogprob]
    refusal: None


class CompletionLogprobs(TypedDict):
    """The log-probabilities of a choice of a completion; the first token of an echoed prompt has
    none.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class PromptLogprob(TypedDict):
    """A token that could stand at a place of a prompt."""

    logprob: Annotated[float, Field(le=0)]
    rank: int
    decoded_token: str | None


class OfPrompt(TypedDict, total=False):
    """What is told of a prompt, if it was asked for. prompt_logprobs: by token id."""

    prompt_token_ids: list[int]
    prompt_logprobs: list[dict[str, PromptLogprob] | None]


class Ending(TypedDict):
    """How a choice has ended. stop_reason: the stop string, or which of stop_token_ids; of a chunk
    that has a finish_reason. token_ids: if they were asked for.
    """

    finish_reason: FinishReason | None
    stop_reason: NotRequired[str | int | None]
    token_ids: NotRequired[list[int]]


class Message(TypedDict):
    """What the assistant has said."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    tool_calls: NotRequired[list[MessageToolCall]]
    reasoning_content: NotRequired[str]


class FunctionDelta(TypedDict):
    """More of a call's arguments; the first part has the name."""

    arguments: str
    name: NotRequired[str]


class ToolCallDelta(TypedDict):
    """More of a call; the first part has its id and its type."""

    index: int
    function: FunctionDelta
    id: NotRequired[str]
    type: NotRequired[Literal["function"]]


class Delta(TypedDict, total=False):
    """What is new in a choice of a chat."""

    role: str
    content: str
    reasoning_content: str
    tool_calls: list[ToolCallDelta]


class ChatResult(Ending):
    """What whole and streamed choices of a chat have in common."""

    index: int
    logprobs: ChatLogprobs | None


class ChatChoice(ChatResult):
    """A choice of a whole chat completion."""

    message: Message


class ChatChunkChoice(ChatResult):
    """What is new in a choice."""

    delta: Delta


class CompletionChoice(Ending, OfPrompt):
    """A choice of a completion, or what is new in it."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None


class Head(TypedDict):
    """How every completion and every chunk of one begins."""

    id: str
    created: int
    model: str
    object: str


class ChatCompletion(Head, OfPrompt):
    """The whole answer to a conversation."""

    choices: list[ChatChoice]
    usage: Usage


class ChatCompletionChunk(Head, OfPrompt):
    """An event of its stream. usage: if it was asked for; null, and in the last chunk the
    figures.
    """

    choices: list[ChatChunkChoice]
    usage: NotRequired[Usage | None]


class Completion(Head):
    """The whole answer to prompts."""

    choices: list[CompletionChoice]
    usage: Usage


class CompletionChunk(Head):
    """An event of its stream. usage: if it was asked for; null, and in the last chunk the
    figures.
    """

    choices: list[CompletionChoice]
    usage: NotRequired[Usage | None]
