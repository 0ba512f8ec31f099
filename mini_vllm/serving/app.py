"""The HTTP server: OpenAI's routes on one side, AsyncEngine.generate() on the other.

A request is handled by a task that is cancelled when its client goes, whatever it is waiting for, and leaving
generate() frees the blocks. Whatever can be refused is refused before the first byte; after it an error is an event of
the stream. Source: vllm/entrypoints/openai/api_server.py, serving_chat.py.
"""

import asyncio
import hmac
import logging
import re
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import orjson
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mini_vllm.errors import (
    EngineDeadError,
    GrammarError,
    InvalidParameterError,
    PromptTooLongError,
    RequestFailedError,
    RequestRefusedError,
    TokenIdOutOfRangeError,
    shown,
)
from mini_vllm.frontend.output_processor import RequestOutput
from mini_vllm.frontend.tokenizer import Tokenizer, TokenNames
from mini_vllm.frontend.tools import ToolUse
from mini_vllm.params import SamplingParams
from mini_vllm.policies.tenants import salt_of
from mini_vllm.serving import live
from mini_vllm.serving.answers import Answer, ChatAnswer, CompletionAnswer, event
from mini_vllm.serving.async_engine import AsyncEngine, QueueFullError, QueueTimeoutError, RequestTimeoutError
from mini_vllm.serving.openapi import openapi_document
from mini_vllm.serving.protocol import (
    MAX_PROMPTS,
    ApiError,
    ChatCompletionRequest,
    CompletionRequest,
    DetokenizeRequest,
    ModelRequest,
    SharedRequest,
    TokenizeRequest,
    parse,
)

logger = logging.getLogger("mini_vllm")

MAX_BODY_BYTES = 8 << 20
PUBLIC_PATHS = frozenset({"/", "/health"})  # that need no key; with tenants only the latter
OPERATOR_PATHS = frozenset({"/", "/engine/steps", "/metrics"})  # that no tenant may see
UNCOUNTED_PATHS = PUBLIC_PATHS | {"/engine/steps"}  # whose requests hold up no shutdown
SUFFIX = ":mini-vllm-async"  # of the model's name in answers
Job = tuple[str | Sequence[int], SamplingParams]  # a prompt and how to sample
Handler = Callable[[HttpRequest], Awaitable[Response]]


@dataclass(frozen=True)
class ServerOptions:
    """What of `mini-vllm serve` is the server's and not the engine's. Times in seconds, None: no limit."""

    served_model_name: str
    api_keys: tuple[str, ...] = ()
    """With tenants, those of the server's operator, who may see what all tenants do."""
    tenants: Mapping[str, str] = field(default_factory=dict)
    """By name, the sha256 of a tenant's key in hexadecimal digits."""
    allowed_origins: tuple[str, ...] = ()
    """Of pages of other hosts that may call this server from a browser."""
    allowed_hosts: tuple[str, ...] = ()
    """Names by which clients may call it; () is any. A page that points its own name at this machine is kept out."""
    queue_timeout: float | None = None
    request_timeout: float | None = None


class JsonResponse(Response):
    """A response of JSON, without spaces."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


class Server:
    """The ASGI application. One event loop runs it, with one AsyncEngine."""

    def __init__(self, engine: AsyncEngine, options: ServerOptions) -> None:
        self.engine = engine
        self.options = options
        self.is_ready = False
        self.is_draining = False
        self.num_in_flight = 0  # requests that are being answered, those of UNCOUNTED_PATHS apart
        self._last_created = 0
        self._started = int(time.time())
        self.routes: dict[str, dict[str, Handler]] = {
            "/": {"GET": live.page},
            "/engine/steps": {"GET": self.engine_steps},
            "/health": {"GET": self.health},
            "/metrics": {"GET": self.metrics},
            "/openapi.json": {"GET": self.openapi},
            "/tokenize": {"POST": self.tokenize},
            "/detokenize": {"POST": self.detokenize},
            "/v1/models": {"GET": self.models},
            "/v1/chat/completions": {"POST": self.chat_completions},
            "/v1/completions": {"POST": self.completions},
        }

    # --- from a socket to a handler -------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        assert scope["type"] == "http"
        request = HttpRequest(scope, receive)
        counts = scope["path"] not in UNCOUNTED_PATHS
        self.num_in_flight += counts
        try:
            await until_the_client_goes(self._answer(request, send), receive, request)
        finally:
            self.num_in_flight -= counts

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        """The model is loaded beside the open port, so that /health can say that it is not there yet."""
        await receive()
        starting = asyncio.create_task(self._start())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
        await self.engine.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _start(self) -> None:
        with suppress(EngineDeadError):  # run() tells
            await self.engine.start()
            self.is_ready = True
            for fact in self.engine.facts:
                logger.info("%s", fact)

    async def _answer(self, request: HttpRequest, send: Send) -> None:
        try:
            response = self._preflight(request) or await self._handler(request)(request)
        except ApiError as error:
            response = JsonResponse(error.body, error.status, error.headers)
        except ClientDisconnect:  # in the middle of its own request
            return
        except Exception:
            logger.exception("%s %s", request.method, shown(request.scope["path"]))
            response = JsonResponse(ApiError(500, "the server has failed at this request").body, 500)
        origin = request.headers.get("origin")
        if origin in self.options.allowed_origins:
            seen = {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": "*", "Vary": "Origin"}
            response.headers.update(seen)
        await response(request.scope, nothing_more, send)

    def _preflight(self, request: HttpRequest) -> Response | None:
        """The answer to a browser that asks whether a page may call; it has no key yet."""
        if request.method != "OPTIONS" or request.headers.get("origin") not in self.options.allowed_origins:
            return None
        asked = request.headers.get("access-control-request-headers", "authorization, content-type")
        allowed = {"Methods": "GET, POST", "Headers": asked, "Max-Age": "600"}
        return Response(status_code=204, headers={f"Access-Control-Allow-{k}": v for k, v in allowed.items()})

    def _handler(self, request: HttpRequest) -> Handler:
        """The handler of a path, if the client may use it."""
        path = request.scope["path"]  # not request.url, which a Host header can bend
        if path not in PUBLIC_PATHS or (self.options.tenants and path != "/health"):
            self._check_key(request)
            self._check_host(request)
            self._check_origin(request)
        methods = self.routes.get(path)
        if methods is None and path.startswith("/v1/models/"):
            methods = {"GET": self.model}
        if methods is None:
            raise ApiError(404, f"{request.method} {shown(path)}: there is no such path")
        method = "GET" if request.method == "HEAD" else request.method
        if method not in methods:
            allowed = ", ".join(methods)
            raise ApiError(405, f"{path} takes {allowed}, got {request.method}", headers={"Allow": allowed})
        return methods[method]

    def _check_key(self, request: HttpRequest) -> None:
        """Find out who asks. The operator is the tenant without a name."""
        keys = [("", sha256(key.encode()).hexdigest()) for key in self.options.api_keys]
        scheme, _, given = dict(request.scope["headers"]).get(b"authorization", b"").partition(b" ")
        digest = sha256(given).hexdigest()
        fits = [name for name, key in (*keys, *self.options.tenants.items()) if hmac.compare_digest(key, digest)]
        if (keys or self.options.tenants) and not (fits and scheme == b"Bearer"):
            headers = {"WWW-Authenticate": "Bearer"}
            raise ApiError(401, "the API key is wrong or missing", code="invalid_api_key", headers=headers)
        request.scope["tenant"] = tenant = fits[0] if fits else ""
        if tenant and request.scope["path"] in OPERATOR_PATHS:
            raise ApiError(403, f"{request.scope['path']} shows what other tenants do: it needs an operator's key")

    def _check_host(self, request: HttpRequest) -> None:
        host = request.headers.get("host", "").lower()
        name = host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
        if self.options.allowed_hosts and name not in self.options.allowed_hosts:
            raise ApiError(
                403, f"the host {shown(host)} is none of this server's: {', '.join(self.options.allowed_hosts)}"
            )

    def _check_origin(self, request: HttpRequest) -> None:
        """What a browser sends for a page of another host without asking first is no JSON, and is not answered."""
        origin, kind = request.headers.get("origin"), request.headers.get("content-type", "")
        own = [f"{scheme}://{request.headers.get('host', '')}" for scheme in ("http", "https")]
        is_foreign = origin not in (None, *own, *self.options.allowed_origins)
        if is_foreign and request.method == "POST" and kind.partition(";")[0].strip().lower() != "application/json":
            raise ApiError(403, f"a page of {shown(origin)} may not call this server: see --allowed-origin")

    # --- handlers -------------------------------------------------------------------------------------------------

    async def health(self, request: HttpRequest) -> Response:
        """200 when it can answer, 503 while it loads, when it drains, and when the engine is dead."""
        if self.is_ready and not self.is_draining and not self.engine.is_dead:
            return JsonResponse({"status": "ok"})
        return JsonResponse({"status": self._why_not()}, 503, {"Retry-After": "1"})

    def _why_not(self) -> str:
        if self.engine.is_dead:
            return f"the engine has stopped: {self.engine.why_dead}"
        return "the server is shutting down" if self.is_draining else "the model is being loaded"

    async def metrics(self, request: HttpRequest) -> Response:
        """The figures of the server, for Prometheus."""
        return Response(self.engine.metrics.render(), media_type=CONTENT_TYPE_LATEST)

    async def openapi(self, request: HttpRequest) -> Response:
        """What this server takes and gives, as an OpenAPI document."""
        return JsonResponse(openapi_document())

    async def tokenize(self, request: HttpRequest) -> Response:
        """Token ids of a text or of a conversation."""
        asked: TokenizeRequest = await self._asked(request, TokenizeRequest)
        reader = self.engine.input_processor
        if asked.messages is not None:
            messages = [message.for_template() for message in asked.messages]
            options = {"add_generation_prompt": asked.add_generation_prompt}
            with refusals("messages"):
                tokens = await asyncio.to_thread(reader.apply_chat_template, messages, **options)
        else:
            special = asked.add_special_tokens
            with refusals("prompt"):
                tokens = await asyncio.to_thread(reader.tokenize, asked.prompt or "", add_special_tokens=special)
        found = {"count": len(tokens), "max_model_len": reader.limits.max_model_len, "tokens": tokens}
        if asked.return_token_strs:
            names = TokenNames(self._tokenizer)
            found["token_strs"] = [names.text(token_id) for token_id in tokens]
        return JsonResponse(found)

    async def detokenize(self, request: HttpRequest) -> Response:
        """The text of token ids."""
        asked: DetokenizeRequest = await self._asked(request, DetokenizeRequest)
        with refusals("tokens"):
            return JsonResponse({"prompt": self.engine.input_processor.detokenize(asked.tokens)})

    async def engine_steps(self, request: HttpRequest) -> Response:
        """The engine's steps as a stream of events, as long as the client listens and the engine can run."""
        self._check_ready()
        async for _ in request.stream():  # whether the client leaves is heard behind its body alone
            pass
        is_over = lambda: request.method == "HEAD" or self.is_draining or self.engine.is_dead  # noqa: E731
        return EventStream(live.steps(self.engine, is_over))

    async def models(self, request: HttpRequest) -> Response:
        """The one model, by its served name."""
        return JsonResponse({"object": "list", "data": [self._model()]})

    async def model(self, request: HttpRequest) -> Response:
        """The model of that name."""
        self._check_model(request.scope["path"].removeprefix("/v1/models/"))
        return JsonResponse(self._model())

    def _model(self) -> dict[str, Any]:
        found = {"id": self.options.served_model_name, "object": "model", "created": self._started}
        if self.is_ready:
            found["max_model_len"] = self.engine.input_processor.limits.max_model_len
        return found | {"owned_by": "mini_vllm"}

    def _check_model(self, name: str | None) -> None:
        served = self.options.served_model_name
        if name not in (None, served, served + SUFFIX):
            raise ApiError(
                404,
                f"the model {shown(name)} does not exist; here is {served!r}",
                param="model",
                code="model_not_found",
            )

    async def chat_completions(self, request: HttpRequest) -> Response:
        """Answer a conversation, in a piece or as a stream of events."""
        asked: ChatCompletionRequest = await self._asked(request, ChatCompletionRequest)
        messages = [message.for_template() for message in asked.messages]
        reader = self.engine.input_processor
        with refusals("messages"):
            self.engine.check_queue(asked.n or 1, asked.cache_salt)  # before any work on what cannot be taken
            use = ToolUse(asked.tools, asked.tool_choice, asked.parallel_tool_calls)
            prompt = await asyncio.to_thread(reader.apply_chat_template, messages, tools=use.tools)
            params = use.constrain(self._sampling_params(asked, len(prompt), asked.asked_max_tokens, "messages"))
        answer = ChatAnswer(reader.form_of(prompt, use, params), *self._head("chatcmpl"), asked, self._tokenizer)
        return await self._respond(answer, [(prompt, params)], asked)

    async def completions(self, request: HttpRequest) -> Response:
        """Complete texts or token ids, in a piece or as a stream of events."""
        asked: CompletionRequest = await self._asked(request, CompletionRequest)
        prompts = asked.prompts
        if len(prompts) > MAX_PROMPTS:
            raise ApiError(400, f"prompt has {len(prompts)} prompts, at most {MAX_PROMPTS} are allowed", param="prompt")
        with refusals("prompt"):
            self.engine.check_queue(len(prompts) * (asked.n or 1), asked.cache_salt)
            read = await asyncio.to_thread(lambda: [self.engine.input_processor.tokenize(each) for each in prompts])
        for number, token_ids in enumerate(read):
            if not token_ids:
                raise ApiError(400, f"prompt {number} has 0 tokens, at least 1 is needed", param="prompt")
            with refusals("prompt"):
                self.engine.input_processor.check_vocabulary("prompt", token_ids)
        max_tokens = 16 if asked.asked_max_tokens is None else asked.asked_max_tokens
        jobs: list[Job] = []
        for given, token_ids in zip(prompts, read, strict=True):
            params = self._sampling_params(asked, len(token_ids), max_tokens, "prompt")
            jobs.append((given if asked.echo and isinstance(given, str) else token_ids, params))
        return await self._respond(CompletionAnswer(*self._head("cmpl"), asked, self._tokenizer), jobs, asked)

    async def _asked(self, request: HttpRequest, kind: type[ModelRequest]) -> Any:
        """What a client asks for. Raises ApiError while nothing can be answered, and for what is no such request."""
        self._check_ready()
        limits = self.engine.input_processor.limits
        asked = parse(kind, await read_json(request, max(MAX_PROMPTS, limits.max_model_len)))
        self._check_model(asked.model)
        if self.options.tenants and isinstance(asked, SharedRequest):
            asked.cache_salt = salt_of(request.scope["tenant"], asked.cache_salt)
        return asked

    async def _respond(self, answer: Answer, jobs: Sequence[Job], asked: SharedRequest) -> Response:
        """Generate, and answer whole or as a stream."""
        with refusals():
            self.engine.check_queue(sum(params.n for _, params in jobs), asked.cache_salt)
        outputs = self._generate_all(answer.id, jobs, asked)
        if asked.stream:
            return EventStream(await first_of(self._events(answer, outputs)))
        last: dict[int, RequestOutput] = {}
        with refusals(answer.prompt_field):
            async with aclosing(outputs):
                async for prompt, output in outputs:
                    last[prompt] = output
        return JsonResponse(answer.whole(sorted(last.items())))

    @property
    def _tokenizer(self) -> Tokenizer | None:
        return self.engine.output_processor.tokenizer

    def _head(self, prefix: str) -> tuple[str, int, str]:
        """Id, time and model of an answer."""
        return f"{prefix}-{secrets.token_hex(12)}", self._created(), self.options.served_model_name + SUFFIX

    def _check_ready(self) -> None:
        if not self.is_ready or self.is_draining or self.engine.is_dead:
            raise ApiError(503, self._why_not(), headers={"Retry-After": "1"})

    def _created(self) -> int:
        """Now, in seconds since 1970; it never goes back."""
        self._last_created = max(self._last_created, int(time.time()))
        return self._last_created

    def _sampling_params(
        self, asked: SharedRequest, num_prompt_tokens: int, max_tokens: int | None, prompt_field: str
    ) -> SamplingParams:
        """How to sample. Raises ApiError if prompt and max_tokens do not fit, or a value is beyond its limit."""
        limit = self.engine.input_processor.limits.max_model_len
        room = limit - num_prompt_tokens
        if room < 1 or max(max_tokens or 1, 1) > room:
            wanted = "" if max_tokens is None else f", and max_tokens is {max_tokens}"
            raise ApiError(
                400,
                f"this model's maximum context length is {limit} tokens; the prompt has {num_prompt_tokens}{wanted}",
                param=prompt_field if room < 1 else "max_tokens",
                code="context_length_exceeded",
            )
        kind = "delta" if asked.stream else "final_only"
        options = asked.sampling_options() | {"max_tokens": max_tokens or room, "output_kind": kind}
        with refusals():
            return self.engine.input_processor.default_sampling_params(**options)

    async def _generate_all(
        self, answer_id: str, jobs: Sequence[Job], asked: SharedRequest
    ) -> AsyncGenerator[tuple[int, RequestOutput]]:
        """The outputs of all prompts as they come, each with the number of its prompt. An error is raised."""
        if len(jobs) == 1:
            async with aclosing(self._generate(answer_id, *jobs[0], asked)) as outputs:
                async for output in outputs:
                    yield 0, output
            return
        arrived: asyncio.Queue[tuple[int, RequestOutput | Exception | None]] = asyncio.Queue()

        async def collect(number: int, prompt: str | Sequence[int], params: SamplingParams) -> None:
            try:
                async with aclosing(self._generate(f"{answer_id}-{number}", prompt, params, asked)) as outputs:
                    async for output in outputs:
                        arrived.put_nowait((number, output))
                arrived.put_nowait((number, None))
            except Exception as error:
                arrived.put_nowait((number, error))

        tasks = [asyncio.create_task(collect(number, *job)) for number, job in enumerate(jobs)]
        try:
            num_left = len(jobs)
            while num_left:
                number, what = await arrived.get()
                if isinstance(what, Exception):
                    raise what
                if what is None:
                    num_left -= 1
                else:
                    yield number, what
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _generate(
        self, request_id: str, prompt: str | Sequence[int], params: SamplingParams, asked: SharedRequest
    ) -> AsyncGenerator[RequestOutput]:
        """The outputs of a request, in time. An error that ends it is raised."""
        outputs = self.engine.generate(request_id, prompt, params, **asked.request_options())
        try:
            async with aclosing(outputs):
                async for output in within(outputs, self.options.queue_timeout, self.options.request_timeout):
                    for choice in output.outputs:
                        if choice.error is not None:
                            raise choice.error
                    yield output
        except GrammarError as error:
            form = asked.form()
            raise ApiError(400, str(error), param=form[0] if form else "tools") from error

    async def _events(
        self, answer: Answer, outputs: AsyncGenerator[tuple[int, RequestOutput]]
    ) -> AsyncGenerator[bytes]:
        """The events of a stream. An error before the first is raised, a later one is an event."""
        has_begun = False
        try:
            async with aclosing(outputs):
                async for prompt, output in outputs:
                    for chunk in answer.chunks(prompt, output):
                        has_begun = True
                        yield event(chunk)
            for chunk in answer.last_chunks():
                yield event(chunk)
        except Exception as error:
            refused = to_api_error(error, answer.prompt_field)
            if not has_begun:
                raise refused from error
            yield event(refused.body)
        yield b"data: [DONE]\n\n"


async def within(
    outputs: AsyncGenerator[RequestOutput], queue_timeout: float | None, request_timeout: float | None
) -> AsyncGenerator[RequestOutput]:
    """The same outputs. Raises QueueTimeoutError if the first takes too long, RequestTimeoutError if all do."""
    loop = asyncio.get_running_loop()
    end = None if request_timeout is None else loop.time() + request_timeout
    first_end = None if queue_timeout is None else loop.time() + queue_timeout
    is_first = True
    while True:
        limits = [each for each in (end, first_end if is_first else None) if each is not None]
        try:
            async with asyncio.timeout_at(min(limits, default=None)):
                output = await anext(outputs, None)
        except TimeoutError:
            if is_first and min(limits) == first_end:
                raise QueueTimeoutError(f"no token came within {queue_timeout} seconds: the server is busy") from None
            raise RequestTimeoutError(f"the request has taken more than {request_timeout} seconds") from None
        if output is None:
            return
        is_first = False
        yield output


# --- what is sent -------------------------------------------------------------------------------------------------


class EventStream(Response):
    """Server-sent events, each sent when it is there."""

    def __init__(self, events: AsyncGenerator[bytes]) -> None:
        super().__init__(
            headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}, media_type="text/event-stream"
        )
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self._events):
            async for data in self._events:
                await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def first_of(events: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """The same events, when the first is there: what is refused before it can still be answered by a status."""
    first = await anext(events)

    async def again() -> AsyncGenerator[bytes]:
        async with aclosing(events):
            yield first
            async for each in events:
                yield each

    return again()


# --- errors -------------------------------------------------------------------------------------------------------


def to_api_error(error: Exception, param: str | None = None) -> ApiError:
    """How a client learns of an error."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, QueueFullError):
        return ApiError(429, str(error), code="queue_full", headers={"Retry-After": str(error.retry_after)})
    if isinstance(error, RequestTimeoutError):
        return ApiError(504, str(error), code="request_timeout")
    if isinstance(error, QueueTimeoutError | EngineDeadError):
        return ApiError(503, str(error), headers={"Retry-After": "1"})
    if isinstance(error, PromptTooLongError):
        return ApiError(400, str(error), param=param, code="context_length_exceeded")
    if isinstance(error, InvalidParameterError | TokenIdOutOfRangeError):
        found = re.search(r": (\w[\w.\[\]]*) ", str(error))  # prompt is the engine's name for what the client has sent
        return ApiError(400, str(error), param=found[1] if found and found[1] != "prompt" else param)
    if isinstance(error, RequestRefusedError):
        return ApiError(400, str(error), param=param)
    if not isinstance(error, RequestFailedError):
        logger.error("a request has failed", exc_info=error)
    return ApiError(
        500, str(error) if isinstance(error, RequestFailedError) else "the server has failed at this request"
    )


class refusals:  # noqa: N801  # a context manager
    """Around what may refuse a request: the refusal becomes an answer. param: the field at fault."""

    def __init__(self, param: str | None = None) -> None:
        self._param = param

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, ApiError):
            raise to_api_error(error, self._param) from error


# --- the client ---------------------------------------------------------------------------------------------------


async def read_json(request: HttpRequest, max_entries: int) -> Any:
    """The body of a request. Raises ApiError for one that is too large, no JSON, or nested too deeply.

    max_entries: of a list or an object among its fields; what has more is not looked at, since that takes time in which
    no other client is served.
    """
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > 4 * MAX_BODY_BYTES:
            break
        if size <= MAX_BODY_BYTES:
            chunks.append(chunk)
    if size > MAX_BODY_BYTES:  # read on until here: closing a connection with unread bytes loses the answer
        raise ApiError(413, f"the body has more than {MAX_BODY_BYTES:,} bytes")
    try:
        body = orjson.loads(b"".join(chunks))
    except orjson.JSONDecodeError as error:
        raise ApiError(400, f"the body is no JSON: {error}") from None
    for name, value in body.items() if isinstance(body, dict) else ():
        if isinstance(value, list | dict) and len(value) > max_entries:
            message = f"{shown(name)} has {len(value)} entries, at most {max_entries} are allowed"
            raise ApiError(400, message, param=name[:100])
    return body


async def nothing_more() -> Any:
    """What a response may receive: nothing, without end."""
    await asyncio.Event().wait()


async def until_the_client_goes(work: Coroutine[Any, Any, None], receive: Receive, request: HttpRequest) -> None:
    """Do the work, and cancel it as soon as the client has left."""
    body_was_read = asyncio.Event()

    async def receive_and_note() -> Any:
        message = await receive()
        if message["type"] == "http.request" and not message.get("more_body"):
            body_was_read.set()
        return message

    async def client_has_gone() -> None:
        await body_was_read.wait()  # until then the handler reads, and hears of it itself
        while (await receive())["type"] != "http.disconnect":
            pass

    request._receive = receive_and_note
    task, watch = asyncio.ensure_future(work), asyncio.ensure_future(client_has_gone())
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in (task, watch):
            each.cancel()
        results = await asyncio.gather(task, watch, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception) and type(result).__name__ != "ClientDisconnect":
            raise result
