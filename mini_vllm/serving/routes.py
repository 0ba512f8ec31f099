"""What is answered: a handler for each path, between a parsed request and AsyncEngine.generate().

A handler says by its types which body it takes and which answer it gives; openapi.py makes its
document of the same types. Source: vllm/entrypoints/openai/chat_completion/serving.py,
vllm/entrypoints/openai/completion/serving.py, vllm/entrypoints/serve/tokenize/serving.py.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, get_type_hints

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from mini_vllm.errors import shown
from mini_vllm.frontend.tokenizer import Tokenizer, TokenNames
from mini_vllm.frontend.tool_calls.form import AssistantForm
from mini_vllm.frontend.tools import ToolUse
from mini_vllm.params import SamplingParams
from mini_vllm.policies.tenants import salt_of
from mini_vllm.serving import live
from mini_vllm.serving.asgi import (
    EventStream,
    JsonResponse,
    name_request,
    read_body,
    read_json,
    refusals,
)
from mini_vllm.serving.async_engine import AsyncEngine
from mini_vllm.serving.generate import Generation, Job
from mini_vllm.serving.openai.answers import Answer, ChatAnswer, CompletionAnswer
from mini_vllm.serving.openai.bounds import (
    MAX_VALUES,
    SMALL_BODY_BYTES,
    check_logprobs,
    check_prompts,
    max_tokens_with_logprobs,
)
from mini_vllm.serving.openai.protocol import (
    ApiError,
    ChatCompletion,
    ChatCompletionRequest,
    Completion,
    CompletionRequest,
    DetokenizeRequest,
    Health,
    Model,
    ModelRequest,
    Models,
    SharedRequest,
    Text,
    TokenizeRequest,
    Tokens,
    parse,
)
from mini_vllm.serving.openapi import openapi_document
from mini_vllm.serving.options import ServerOptions

# What a function makes of a client's input, in a thread
Read = Callable[[Callable[[], Any]], Awaitable[Any]]
SUFFIX = ":mini-vllm-async"  # of the model's name in answers


class Api:
    """The handlers. They answer when is_ready, and refuse what is new when is_draining."""

    def __init__(self, engine: AsyncEngine, options: ServerOptions) -> None:
        self.engine = engine
        self.options = options
        self.is_ready = False
        self.is_draining = False
        self._last_created = 0
        self._started = int(time.time())
        self._document = openapi_document(ENDPOINTS)

    def routes(self) -> list[Route]:
        """A route for each path."""
        others = {
            "/": live.page,
            "/engine/steps": self.engine_steps,
            "/metrics": self.metrics,
            "/openapi.json": self.openapi,
            "/v1/models/{name:path}": self.model,
        }
        routes = [self._json_route(path, handler) for path, handler in ENDPOINTS.items()]
        return routes + [Route(path, handler) for path, handler in others.items()]

    def _json_route(self, path: str, handler: Callable[..., Any]) -> Route:
        """A route of JSON. It is a POST if the handler takes a body."""
        body = get_type_hints(handler).get("asked")

        async def endpoint(request: HttpRequest) -> Response:
            if body is None:
                answer = await handler(self)
            else:
                read = partial(self.engine.read, request.scope.get("tenant", ""))
                answer = await handler(self, await self._asked(request, body, read), read)
            return answer if isinstance(answer, Response) else JsonResponse(answer)

        return Route(path, endpoint, methods=["POST" if body else "GET"])

    async def _asked(self, request: HttpRequest, kind: type[ModelRequest], read: Read) -> Any:
        """What a client asks for.

        Raises ApiError while nothing can be answered, and for what is no such request.
        """
        self._check_ready()
        body = await read_body(request)
        max_values = max(MAX_VALUES, 2 * self.engine.input_processor.limits.max_model_len)

        def parsed() -> Any:
            return parse(kind, read_json(body, max_values), strict=self.options.strict)

        asked = await read(parsed) if len(body) > SMALL_BODY_BYTES else parsed()
        self._check_model(asked.model)
        if isinstance(asked, SharedRequest):
            asked.request_id = name_request(request.scope, asked.request_id)
        if self.options.tenants and isinstance(asked, SharedRequest):
            asked.cache_salt = salt_of(request.scope["tenant"], asked.cache_salt)
        return asked

    def _check_ready(self) -> None:
        """Raises ApiError with the reason while nothing can be answered."""
        why = None if self.is_ready else "the model is being loaded"
        if self.is_draining:
            why = "the server is shutting down"
        if self.engine.is_dead:
            why = f"the engine has stopped: {self.engine.why_dead}"
        if why is not None:
            raise ApiError(503, why, headers={"Retry-After": "1"})

    def _check_model(self, name: str | None) -> None:
        served = self.options.served_model_name
        if name not in (None, served, served + SUFFIX):
            message = f"the model {shown(name)} does not exist; here is {served!r}"
            raise ApiError(404, message, param="model", code="model_not_found")

    # --- what is not in the document --------------------------------------------------------------

    async def metrics(self, request: HttpRequest) -> Response:
        """The figures of the server, for Prometheus."""
        return Response(self.engine.metrics.render(), media_type=CONTENT_TYPE_LATEST)

    async def openapi(self, request: HttpRequest) -> Response:
        """What this server takes and gives, as an OpenAPI document."""
        return JsonResponse(self._document)

    async def engine_steps(self, request: HttpRequest) -> Response:
        """The engine's steps as a stream of events, as long as the client listens and the engine
        can run.
        """
        self._check_ready()
        await request.body()  # whether the client leaves is heard behind its body alone
        is_over = lambda: request.method == "HEAD" or self.is_draining or self.engine.is_dead  # noqa: E731
        return await EventStream.of(live.steps(self.engine, is_over))

    async def model(self, request: HttpRequest) -> Response:
        """The model of that name."""
        self._check_model(request.path_params["name"])
        return JsonResponse(self._model())

    # --- what is ----------------------------------------------------------------------------------

    async def health(self) -> Health | Response:
        """Whether the server can answer.

        It gives 503 while it loads, when it drains, and when the engine is dead.
        """
        try:
            self._check_ready()
        except ApiError as refused:
            return JsonResponse(Health(status=refused.message), refused.status, refused.headers)
        return {"status": "ok"}

    async def models(self) -> Models:
        """The model that is served."""
        return {"object": "list", "data": [self._model()]}

    def _model(self) -> Model | Any:
        found: Any = {
            "id": self.options.served_model_name,
            "object": "model",
            "created": self._started,
        }
        if self.is_ready:
            found["max_model_len"] = self.engine.input_processor.limits.max_model_len
        found["owned_by"] = "mini_vllm"
        return found

    async def tokenize(self, asked: TokenizeRequest, read: Read) -> Tokens:
        """Token ids of a text or a conversation."""
        reader = self.engine.input_processor

        def tokens_of() -> Tokens:
            if asked.messages is None:
                tokens = reader.tokenize(
                    asked.prompt or "", add_special_tokens=asked.add_special_tokens
                )
            else:
                tokens = reader.apply_chat_template(
                    [message.for_template() for message in asked.messages],
                    add_generation_prompt=asked.add_generation_prompt,
                )
            limit = reader.limits.max_model_len
            found: Tokens = {"count": len(tokens), "max_model_len": limit, "tokens": tokens}
            if asked.return_token_strs:
                found["token_strs"] = [*map(TokenNames(self._tokenizer).text, tokens)]
            return found

        with refusals("prompt" if asked.messages is None else "messages"):
            answer: Tokens = await read(tokens_of)
            return answer

    async def detokenize(self, asked: DetokenizeRequest, read: Read) -> Text:
        """The text of token ids."""
        with refusals("tokens"):
            detokenize = self.engine.input_processor.detokenize
            return {"prompt": await read(partial(detokenize, asked.tokens))}

    async def chat_completions(
        self, asked: ChatCompletionRequest, read: Read
    ) -> ChatCompletion | EventStream:
        """Answer a conversation."""
        reader = self.engine.input_processor

        def job_of() -> tuple[AssistantForm, Job]:
            with refusals("messages"):
                messages = [message.for_template() for message in asked.messages]
                use = ToolUse(asked.tools, asked.tool_choice, asked.parallel_tool_calls)
                options = asked.template_options() | {"tools": use.tools}
                prompt = reader.apply_chat_template(messages, **options)
            max_tokens = asked.asked_max_tokens
            params = self._sampling_params(asked, [len(prompt)], max_tokens, "messages")
            with refusals("messages"):
                params = use.constrain(params)
                form = reader.form_of(prompt, use, params)
            return form, (prompt, form.constrain(params))

        with refusals("messages"):
            # before any work on what cannot be taken
            self.engine.check_queue(asked.n or 1, asked.cache_salt)
            form, job = await read(job_of)
        answer = ChatAnswer(form, *self._head("chatcmpl", asked), asked, self._tokenizer)
        return await self._respond(answer, [job], asked)

    async def completions(self, asked: CompletionRequest, read: Read) -> Completion | EventStream:
        """Complete texts or token ids."""
        reader = self.engine.input_processor

        def jobs_of() -> list[Job]:
            prompts = [reader.tokenize(each) for each in asked.prompts]
            for number, token_ids in enumerate(prompts):
                if not token_ids:
                    raise ApiError(
                        400, f"prompt {number} has 0 tokens, at least 1 is needed", param="prompt"
                    )
                reader.check_vocabulary("prompt", token_ids)
            max_tokens = 16 if asked.asked_max_tokens is None else asked.asked_max_tokens
            lengths = [*map(len, prompts)]
            params = self._sampling_params(asked, lengths, max_tokens, "prompt")
            return [(prompt, params) for prompt in prompts]

        with refusals("prompt"):
            check_prompts(asked)
            self.engine.check_queue(len(asked.prompts) * (asked.n or 1), asked.cache_salt)
            jobs = await read(jobs_of)
        answer = CompletionAnswer(*self._head("cmpl", asked), asked, self._tokenizer)
        return await self._respond(answer, jobs, asked)

    async def _respond(
        self, answer: Answer, jobs: Sequence[Job], asked: SharedRequest
    ) -> Any | EventStream:
        """Generate, and answer whole or as a stream."""
        self.engine.check_queue(sum(params.n for _, params in jobs), asked.cache_salt)
        generation = Generation(self.engine, self.options, asked, answer, jobs)
        return await (EventStream.of(generation.events()) if asked.stream else generation.whole())

    @property
    def _tokenizer(self) -> Tokenizer | None:
        return self.engine.output_processor.tokenizer

    def _head(self, prefix: str, asked: SharedRequest) -> tuple[str, int, str]:
        """Id, time (in seconds since 1970, which never goes back) and model of an answer."""
        self._last_created = max(self._last_created, int(time.time()))
        return (
            f"{prefix}-{asked.request_id}",
            self._last_created,
            self.options.served_model_name + SUFFIX,
        )

    def _sampling_params(
        self,
        asked: SharedRequest,
        num_prompt_tokens: Sequence[int],
        max_tokens: int | None,
        prompt_field: str,
    ) -> SamplingParams:
        """How to sample, for all prompts. Raises ApiError if prompt and max_tokens do not fit."""
        limit = self.engine.input_processor.limits.max_model_len
        longest = max(num_prompt_tokens)
        room = limit - longest
        if room < 1 or max(max_tokens or 1, 1) > room:
            wanted = "" if max_tokens is None else f", and max_tokens is {max_tokens}"
            raise ApiError(
                400,
                f"This model's maximum context length is {limit} tokens. The prompt has "
                f"{longest}{wanted}.",
                param=prompt_field if room < 1 else "max_tokens",
                code="context_length_exceeded",
            )
        options = asked.sampling_options()
        if max_tokens is None:
            max_tokens = min(room, max_tokens_with_logprobs(options))
        check_logprobs(options, num_prompt_tokens, max_tokens)
        kind = "delta" if asked.stream else "final_only"
        options |= {"max_tokens": max_tokens or 1, "output_kind": kind}
        return self.engine.input_processor.default_sampling_params(**options)


ENDPOINTS: dict[str, Callable[..., Any]] = {
    "/health": Api.health,
    "/v1/models": Api.models,
    "/v1/chat/completions": Api.chat_completions,
    "/v1/completions": Api.completions,
    "/tokenize": Api.tokenize,
    "/detokenize": Api.detokenize,
}
