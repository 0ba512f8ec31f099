"""A live server for tests: uvicorn in a thread, the engine in another one, on a free port of this
machine.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn

from mini_vllm.config import EngineConfig
from mini_vllm.frontend import chat_template
from mini_vllm.observe.server_log import ThroughputLog
from mini_vllm.serving.app import Server
from mini_vllm.serving.async_engine import AsyncEngine
from mini_vllm.serving.connections import Connections
from mini_vllm.serving.engine_client import ThreadClient
from mini_vllm.serving.options import ServerOptions
from mini_vllm.serving.run import listen, web_config


class LiveServer:
    """A server that runs until stop(). **options: of AsyncEngine and ServerOptions; config: of the
    engine.
    """

    def __init__(
        self, config: dict[str, Any], options: dict[str, Any], server_options: dict[str, Any]
    ) -> None:
        self.engine = AsyncEngine(
            EngineConfig("tiny", device="cpu", **config),
            **{"make_client": ThreadClient, **options},
        )
        self.server = Server(
            self.engine,
            ServerOptions(**{"served_model_name": "tiny", "access_log": False, **server_options}),
        )
        self.connections = Connections(lambda: self.now)
        self._web = uvicorn.Server(web_config(self.server, self.connections))
        self.now = 0.0  # by which its connections have deadlines
        self._is_open = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        assert self._is_open.wait(60), "the server has not started"

    async def _run(self) -> None:
        self.loop = asyncio.get_running_loop()
        serving = asyncio.create_task(self._web.serve([listen("127.0.0.1", 0)]))
        while not (self._web.started and (self.server.api.is_ready or self.engine.is_dead)):
            await asyncio.sleep(0.01)
        self.port = self._web.servers[0].sockets[0].getsockname()[1]
        self._is_open.set()
        await serving

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def core(self) -> Any:
        """The engine core, which the thread of the engine owns: look at it when it is idle."""
        client = self.engine._client
        assert isinstance(client, ThreadClient)
        return client.loop.core

    def in_loop(self, function: Callable[[], Any]) -> Any:
        """Call a function where the server runs."""

        async def call() -> Any:
            return function()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(60)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something holds in the loop; a minute is too long."""

        async def wait() -> None:
            while not holds():
                await asyncio.sleep(0.005)

        try:
            asyncio.run_coroutine_threadsafe(wait(), self.loop).result(60)
        except TimeoutError:
            raise AssertionError(f"it never came to this: {what}") from None

    def assert_idle(self) -> None:
        """No request, block, stream or row is held."""
        self.until(
            lambda: self.server.num_in_flight == 0 and not self.core.has_unfinished_requests(),
            "idle",
        )
        engine, core = self.engine, self.core
        kv = core.scheduler.kv_cache_manager
        assert kv.num_free_blocks == kv.num_usable_blocks
        assert [
            engine._streams,
            engine.admission.waiting,
            kv._tables,
            core.scheduler._requests,
        ] == [{}] * 4
        assert engine.admission._logprobs == {}
        assert engine.admission._num_body_bytes == {}
        assert not any(
            value for value in vars(engine.output_processor).values() if isinstance(value, dict)
        )

    def stop(self) -> None:
        self._web.should_exit = True
        self._thread.join(60)
        assert not self._thread.is_alive(), "the server has not ended"


@pytest.fixture(scope="session", autouse=True)
def silent() -> Iterator[None]:
    """A line of a server would stand in what a test of the command line reads beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ThroughputLog, "INTERVAL", 1e6)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_reader_of_templates() -> Iterator[None]:
    """Servers share the processes that render conversations: each would start one of its own."""
    limits = chat_template.MAX_SECONDS, chat_template.MAX_MEMORY_BYTES
    pool = chat_template.ProcessPool(lambda: chat_template.TemplateProcess(*limits))
    shared = SimpleNamespace(one=pool.one, close=lambda: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chat_template, "ProcessPool", lambda make: shared)
        yield
    pool.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., LiveServer]]:
    """Makes servers: serve(config, options of AsyncEngine, options of the server)."""
    made: list[LiveServer] = []

    def make(
        config: dict[str, Any] | None = None,
        options: dict[str, Any] | None = None,
        server_options: dict[str, Any] | None = None,
    ) -> LiveServer:
        made.append(
            LiveServer(config or {"num_kv_blocks": 200}, options or {}, server_options or {})
        )
        return made[-1]

    yield make
    for server in made:
        server.stop()


@pytest.fixture(scope="session")
def plain_server() -> Iterator[LiveServer]:
    server = LiveServer({"num_kv_blocks": 200}, {}, {})
    yield server
    server.stop()


@pytest.fixture(scope="module")
def live(plain_server: LiveServer) -> Iterator[LiveServer]:
    """One server for the tests that leave it as it was, which each file says at its end."""
    yield plain_server
    plain_server.assert_idle()
