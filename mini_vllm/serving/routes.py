"""What is answered: a handler for each path, between a parsed request and AsyncEngine.generate().

A handler says by its types which body it takes and which answer it gives; openapi.py makes its
document of the same types. Source: vllm/entrypoints/openai/chat_completion/serving.py,
vllm/entrypoints/openai/completion/serving.py, vllm/entrypoints/serve/tokenize/serving.py.
"""

import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, get_type_hints

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from mini_vllm import __version__
from mini_vllm.errors import shown
from mini_vllm.frontend.tokenizer import Tokenizer, TokenNames
from mini_vllm.policies.tenants import salt_of
from mini_vllm.serving import live
from mini_vllm.serving.admission.bounds import MAX_VALUES, SMALL_BODY_BYTES
from mini_vllm.serving.admission.jobs import Read, read_chat, read_prompts
from mini_vllm.serving.asgi import EventStream, JsonResponse, name_request, read_body, read_json
from mini_vllm.serving.async_engine import AsyncEngine
from mini_vllm.serving.openai.answers import Answer, ChatAnswer, CompletionAnswer
from mini_vllm.serving.openai.errors import refusals
from mini_vllm.serving.openai.generate import Generation, Job
from mini_vllm.serving.openai.openapi import openapi_document
from mini_vllm.serving.openai.protocol import (
    ApiError,
    ChatCompletion,
    ChatCompletionRequest,
    Completion,
    CompletionRequest,
    DetokenizeRequest,
    GenerateRequest,
    Health,
    Load,
    Model,
    ModelRequest,
    Models,
    Rendered,
    SharedRequest,
    Text,
    TokenizeRequest,
    Tokens,
    Version,
    parse,
)
from mini_vllm.serving.openai.responses import (
    ModelResponse,
    ResponseAnswer,
    ResponsesRequest,
    in_words_of_responses,
)
from mini_vllm.serving.options import ServerOptions


class Api:
    """The handlers. They answer when is_ready, and refuse what is new when is_draining."""

    def __init__(self, engine: AsyncEngine, options: ServerOptions) -> None:
        self.engine = engine
        self.options = options
        self.is_ready = False
        self.is_draining = False
        self._last_created = 0
        self._started = int(time.time())
        self._document = document()

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
                read = partial(self.engine.admission.read, request.scope.get("turn", ""))
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

        asked = await read(parsed, len(body)) if len(body) > SMALL_BODY_BYTES else parsed()
        self._check_model(asked.model)
        if isinstance(asked, GenerateRequest):
            asked.request_id = name_request(request.scope, asked.request_id)
            asked.user = request.scope.get("turn", "")
            if self.options.tenants:
                asked.cache_salt = salt_of(request.scope["tenant"], asked.cache_salt)
        return asked

    def _check_ready(self) -> None:
        """Raises ApiError with the reason while nothing can be answered."""
        why = None if self.is_ready else "the model is being loaded"
        if self.is_draining:
            why = "the server is shutting down"
        why = self.engine.why_unable or why
        if why is not None:
            raise ApiError(503, why, headers={"Retry-After": "1"})

    def _check_model(self, name: str | None) -> None:
        served = self.options.served_model_name
        if name not in (None, served):
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

    async def load(self) -> Load:
        """How many choices wait or run, for a router."""
        return {"load": self.engine.num_unfinished}

    async def version(self) -> Version:
        """The version of this server."""
        return {"version": __version__}

    async def chat_completions(
        self, asked: ChatCompletionRequest, read: Read
    ) -> ChatCompletion | EventStream:
        """Answer a conversation."""
        prompt, params, form = await read_chat(self.engine, asked, read)
        answer = ChatAnswer(form, *self._head("chatcmpl", asked))
        asked.messages.clear()  # a stream would hold them to its end
        return await self._respond(answer, [(prompt, params)], asked)

    async def responses(self, asked: ResponsesRequest, read: Read) -> ModelResponse | EventStream:
        """Answer items of a conversation."""
        with in_words_of_responses():
            chat = await read(asked.as_chat)
            prompt, params, form = await read_chat(self.engine, chat, read)
            answer = ResponseAnswer(asked, params, form, *self._head("resp", chat))
            asked.input, chat.messages = "", []  # a stream would hold them to its end
            return await self._respond(answer, [(prompt, params)], chat)

    async def render_chat(self, asked: ChatCompletionRequest, read: Read) -> Rendered:
        """The token ids of a conversation's prompt, by which a router knows what is cached where.

        Source: render_chat_request in vllm/entrypoints/scale_out/render/serving.py.
        """
        prompt, _, _ = await read_chat(self.engine, asked, read)
        return self._rendered(f"chatcmpl-{asked.request_id}", prompt)

    async def render_completion(self, asked: CompletionRequest, read: Read) -> list[Rendered]:
        """The token ids of each prompt. Source: render_completion_request, as above."""
        jobs = await read_prompts(self.engine, asked, read)
        name = f"cmpl-{asked.request_id}"
        return [self._rendered(f"{name}-{i}", ids) for i, (ids, _) in enumerate(jobs)]

    def _rendered(self, name: str, token_ids: list[int]) -> Rendered:
        return {"request_id": name, "token_ids": token_ids, "model": self.options.served_model_name}

    async def completions(self, asked: CompletionRequest, read: Read) -> Completion | EventStream:
        """Complete texts or token ids."""
        jobs = await read_prompts(self.engine, asked, read)
        answer = CompletionAnswer(*self._head("cmpl", asked))
        return await self._respond(answer, jobs, asked)

    async def _respond(
        self, answer: Answer, jobs: Sequence[Job], asked: SharedRequest
    ) -> Any | EventStream:
        """Generate, and answer whole or as a stream."""
        self.engine.check_queue(sum(params.n for _, params in jobs), asked.user)
        generation = Generation(self.engine, self.options, asked, answer, jobs)
        return await (EventStream.of(generation.events()) if asked.stream else generation.whole())

    @property
    def _tokenizer(self) -> Tokenizer | None:
        return self.engine.output_processor.tokenizer

    def _head(self, prefix: str, asked: SharedRequest) -> tuple[Any, ...]:
        """What an answer is made of: id, time (in seconds since 1970, which never goes back) and
        model, what is asked, and the tokenizer.
        """
        self._last_created = max(self._last_created, int(time.time()))
        return (
            f"{prefix}-{asked.request_id}",
            self._last_created,
            self.options.served_model_name,
            asked,
            self._tokenizer,
        )


ENDPOINTS: dict[str, Callable[..., Any]] = {
    "/health": Api.health,
    "/version": Api.version,
    "/get_load": Api.load,
    "/v1/models": Api.models,
    "/v1/chat/completions": Api.chat_completions,
    "/v1/completions": Api.completions,
    "/v1/responses": Api.responses,
    "/v1/chat/completions/render": Api.render_chat,
    "/v1/completions/render": Api.render_completion,
    "/tokenize": Api.tokenize,
    "/detokenize": Api.detokenize,
}


@cache
def document() -> dict[str, Any]:
    """What is answered, for clients. It takes a tenth of a second, so not when one asks."""
    return openapi_document(ENDPOINTS)
