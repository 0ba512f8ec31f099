"""The HTTP server: the routes, what stands around them, and the engine that starts and ends with
them.

Source: vllm/entrypoints/openai/api_server.py.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from mini_vllm.errors import EngineDeadError
from mini_vllm.observe.server_log import AccessLine, ThroughputLog
from mini_vllm.serving.asgi import ON_ERROR, CancelOnDisconnect, with_request_id
from mini_vllm.serving.async_engine import AsyncEngine
from mini_vllm.serving.guard import PUBLIC_PATHS, AllowedOrigins, Guard
from mini_vllm.serving.options import ServerOptions
from mini_vllm.serving.routes import ENDPOINTS, Api

logger = logging.getLogger("mini_vllm")

UNCOUNTED_PATHS = PUBLIC_PATHS | {"/engine/steps"}  # whose requests hold up no shutdown


class Server:
    """The ASGI application. One event loop runs it, with one AsyncEngine."""

    def __init__(
        self, engine: AsyncEngine, options: ServerOptions, api_cls: type[Api] = Api
    ) -> None:
        self.engine = engine
        self.api = api_cls(engine, options)
        self.num_in_flight = 0  # requests that are being answered, those of UNCOUNTED_PATHS apart
        self.router = Router(
            self.api.routes(),
            redirect_slashes=False,
            lifespan=self._lifespan,
            middleware=[
                Middleware(CancelOnDisconnect),
                Middleware(AllowedOrigins, options.allowed_origins),
                Middleware(ExceptionMiddleware, ON_ERROR),
                Middleware(Guard, options),
            ],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # with it Starlette's routes raise what they refuse, and on_no_route() answers
        scope["app"] = self
        if scope["type"] == "lifespan":
            await self.router.lifespan(scope, receive, send)
            return
        assert scope["type"] == "http"
        send = with_request_id(scope, send)
        line = AccessLine(scope, time.monotonic)
        path = scope["path"]
        if path.startswith(("http://", "https://")):  # as a proxy writes it (RFC 9112, 3.2.2)
            scope["path"] = path = "/" + path.partition("://")[2].partition("/")[2]
        num_counted = int(path not in UNCOUNTED_PATHS)
        self.num_in_flight += num_counted
        try:
            await self.router(scope, receive, line.noting(send))
        finally:
            self.num_in_flight -= num_counted
            if self.api.options.access_log:
                line.write()
            if line.status is not None and num_counted:
                handler = path if path in ENDPOINTS else "none"
                self.engine.metrics.answered(handler, line.status, line.seconds)

    @asynccontextmanager
    async def _lifespan(self, app: object) -> AsyncGenerator[None]:
        """The model is loaded beside the open port, so that /health can say that it is not there
        yet.
        """
        starting = asyncio.create_task(self._start())
        yield
        starting.cancel()
        with suppress(asyncio.CancelledError):
            await starting
        await self.engine.close()

    async def _start(self) -> None:
        with suppress(EngineDeadError):  # run() tells
            await self.engine.start()
            self.api.is_ready = True
            for fact in self.engine.facts:
                logger.info("%s", fact)
            throughput = ThroughputLog(self.engine)
            while True:
                await asyncio.sleep(throughput.INTERVAL)
                throughput.write()
