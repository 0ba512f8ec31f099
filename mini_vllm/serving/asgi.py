"""HTTP below the routes: bodies in, JSON and events out, what an error becomes, and clients that
leave.

A request is handled by a task that is cancelled when its client leaves, whatever the task is
waiting for. What can be refused is refused before the first byte; after it an error is an event of
the stream. Source: with_cancellation in vllm/entrypoints/serve/utils/api_utils.py.
"""

import asyncio
import re
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

import orjson
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mini_vllm.errors import shown
from mini_vllm.serving.admission.bounds import SMALL_BODY_BYTES, check_structure
from mini_vllm.serving.openai.errors import log_failure, to_api_error
from mini_vllm.serving.openai.protocol import REQUEST_ID, ApiError

MAX_BODY_BYTES = 8 << 20


# --- what is read ---------------------------------------------------------------------------------


async def read_body(request: HttpRequest) -> bytes:
    """The body of a request. Raises ApiError for one that is too large."""
    chunks, size = [], 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > 4 * MAX_BODY_BYTES:
                break
            if size <= MAX_BODY_BYTES:
                chunks.append(chunk)
    except ClientDisconnect:
        chunks.clear()  # the error holds this frame until garbage is collected
        raise
    # read on until here: closing a connection with unread bytes loses the answer
    if size > MAX_BODY_BYTES:
        raise ApiError(413, f"the body has more than {MAX_BODY_BYTES:,} bytes")
    return b"".join(chunks)


def read_json(body: bytes, max_values: int) -> Any:
    """A body as JSON. Raises ApiError for what is none, nested too deeply, or of too many parts."""
    if len(body) > SMALL_BODY_BYTES:
        check_structure(body, max_values)
    try:
        found = orjson.loads(body)
        orjson.dumps([[[[found]]]])  # an answer can hold it, some levels deeper
    except (ValueError, TypeError) as error:
        raise ApiError(400, f"the body is no JSON of at most 250 levels: {error}") from None
    return found


def name_request(scope: Scope, name: str | None = None) -> str:
    """The id of a request: of its header X-Request-Id, or of its body, or a new one.

    Its answer says it in the same header. Source: _base_request_id in
    vllm/entrypoints/serve/engine/serving.py.
    """
    given = Headers(scope=scope).get("x-request-id", "")
    name = given if re.fullmatch(REQUEST_ID, given) else name
    scope["request_id"] = name or scope.get("request_id") or secrets.token_hex(12)
    return str(scope["request_id"])


# --- what is sent ---------------------------------------------------------------------------------


class JsonResponse(Response):
    """A response of JSON, without spaces."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


class EventStream(StreamingResponse):
    """Server-sent events, each sent when it is there.

    CancelOnDisconnect hears whether the client leaves.
    """

    media_type = "text/event-stream"

    def __init__(self, first: bytes, events: AsyncGenerator[bytes]) -> None:
        super().__init__(
            joined(first, events), headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        )
        self._events = events

    @classmethod
    async def of(cls, events: AsyncGenerator[bytes]) -> "EventStream":
        """When the first event is there: what is refused before it can still be answered by a
        status.
        """
        return cls(await anext(events), events)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._events):
            await self.stream_response(send)


async def joined(first: bytes, events: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """The first event again, and the other ones."""
    yield first
    async for each in events:
        yield each


def with_request_id(scope: Scope, send: Send) -> Send:
    """Sends the same, and in the headers of an answer the id of its request."""
    name_request(scope)

    async def send_named(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["X-Request-Id"] = scope["request_id"]
        await send(message)

    return send_named


# --- errors ---------------------------------------------------------------------------------------


async def on_error(request: HttpRequest, error: Exception) -> Response:
    """The answer to a request that was refused, or at which the server has failed.

    A client that has left gets none.
    """
    if isinstance(error, ClientDisconnect):
        raise error
    refused = to_api_error(error)
    log_failure(refused, error, request.scope["request_id"])
    return JsonResponse(refused.body, refused.status, refused.headers)


NOT_HERE = {
    "/v1/(embeddings|rerank|score)|/(v2/rerank|rerank|score|pooling|classify|embed)": ": this "
    "server makes no vectors and no scores",
    "/v1/(audio|images|videos|realtime)": ": this server reads and writes text alone",
    "/v1/(messages|complete)": ": this server does not speak Anthropic's API, but OpenAI's",
    "/v1/(files|batches|assistants|threads|vector_stores|uploads|conversations|fine_tuning"
    "|responses/)": ": this server keeps nothing between two requests",
    "/api/": ": this server does not speak Ollama's API, but OpenAI's",
    "/(chat|completions|models|v1/v1)": ": the base URL of a client ends with one /v1",
}


async def on_no_route(request: HttpRequest, error: HTTPException) -> Response:
    """The answer to a request whose path has no route, or one of another method."""
    path, method = request.scope["path"], request.method
    found = next((why for kind, why in NOT_HERE.items() if re.match(kind, path)), "")
    here = ", ".join(sorted(route.path for route in request.app.router.routes))
    refused = ApiError(404, f"{method} {shown(path)} is not here{found}. This server has {here}")
    if error.headers is not None:
        allowed = "POST" if "POST" in error.headers["Allow"] else "GET"  # which has HEAD, too
        refused = ApiError(405, f"{path} takes {allowed}, got {method}", headers={"Allow": allowed})
    return await on_error(request, refused)


ON_ERROR: Mapping[Any, Any] = {HTTPException: on_no_route, Exception: on_error}


# --- the client -----------------------------------------------------------------------------------


class CancelOnDisconnect:
    """Middleware that cancels the work on a request as soon as its client has left."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body_was_read = asyncio.Event()

        async def receive_and_note() -> Message:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                body_was_read.set()
            return message

        async def client_has_gone() -> None:
            await body_was_read.wait()  # until then the handler reads, and hears of it itself
            while (await receive())["type"] != "http.disconnect":
                pass
            raise ClientDisconnect

        try:
            async with asyncio.TaskGroup() as group:  # which an error of the one task cancels
                watch = group.create_task(client_has_gone())
                await self._app(scope, receive_and_note, send)
                watch.cancel()
        except* ClientDisconnect:
            pass
