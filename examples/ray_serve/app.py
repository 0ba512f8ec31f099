"""mini_vllm on Ray Serve: replicas on as many machines as the cluster of Ray has. `make ray` tries it on this machine.

Ray (https://docs.ray.io/en/latest/serve) starts the replicas, places them, replaces one that has died, and carries
what is said between machines. Each replica has an engine of its own and answers with mini_vllm's own application. In
front of the replicas stands an ingress, which reads the body of a request, since a request goes to the replica that
has most of its prompt in the cache. On a cluster: `serve run app:app` in this folder, with Ray 2.60 and mini_vllm
installed on each machine; the environment of the driver has the options, as JSON:

    MINI_VLLM_CONFIG='{"model": "/models/Qwen3-0.6B", "num_replicas": 4, "num_gpus": 1}'

num_replicas, num_cpus and num_gpus (of one replica) are Ray's; routing is "prefix", or "queues" for Ray's default. All
other names are those of EngineConfig.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, NamedTuple

from ray import serve
from ray.serve.config import RequestRouterConfig
from ray.serve.handle import DeploymentHandle
from starlette.requests import Request
from starlette.responses import StreamingResponse

OPTIONS: dict[str, Any] = {"model": "tiny", "num_replicas": 2, "num_cpus": 0.1, "num_gpus": 0}
OPTIONS |= json.loads(os.environ.get("MINI_VLLM_CONFIG", "{}"))
PLACED = {name: OPTIONS.pop(name) for name in ("num_cpus", "num_gpus")}
NUM_REPLICAS = OPTIONS.pop("num_replicas")
ROUTING = OPTIONS.pop("routing", "prefix")
if ROUTING not in ("prefix", "queues"):
    raise ValueError(f'routing must be "prefix" or "queues", got {ROUTING!r}')
SCOPE = ("type", "http_version", "method", "path", "raw_path", "query_string", "headers", "scheme")


class Asked(NamedTuple):
    """One request, as it goes to a replica.

    scope: of ASGI; prompt: what Ray's router compares with the prompts that it has sent to each replica.
    """

    scope: dict[str, Any]
    body: bytes
    prompt: str


def by_prefix() -> dict[str, Any]:
    """The router of requests, unless queues alone are asked for. Ray has it among its private classes: where it is
    gone, Ray's default is taken, which sends a request to the replica of two that has the shorter queue.
    """
    if ROUTING == "queues":
        return {}
    try:
        from ray.llm._internal.serve.routing_policies.prefix_aware.prefix_aware_router import PrefixCacheAffinityRouter
    except ImportError:
        return {}
    # By default it never looks at queues and forgets no prompt.
    options = {"imbalanced_threshold": 8, "do_eviction": True}
    options |= {"eviction_threshold_chars": 4_000_000, "eviction_target_chars": 3_600_000}
    router = RequestRouterConfig(request_router_class=PrefixCacheAffinityRouter, request_router_kwargs=options)
    return {"request_router_config": router}


@serve.deployment(num_replicas=NUM_REPLICAS, max_ongoing_requests=256, ray_actor_options=PLACED, **by_prefix())
class Engine:
    """A replica: one engine, in a process of its own, and the application in front of it."""

    async def __init__(self) -> None:
        from mini_vllm.config import EngineConfig
        from mini_vllm.serving.app import Server
        from mini_vllm.serving.async_engine import AsyncEngine
        from mini_vllm.serving.options import ServerOptions

        name = OPTIONS["model"]
        self._server = Server(AsyncEngine(EngineConfig(**OPTIONS), metrics_name=name), ServerOptions(name))
        self._events: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        self._events.put_nowait({"type": "lifespan.startup"})
        has_begun = asyncio.Event()

        async def send(message: object) -> None:
            has_begun.set()

        self._life = asyncio.create_task(self._server({"type": "lifespan"}, self._events.get, send))
        await has_begun.wait()
        while not self._server.api.is_ready:
            self.check_health()
            await asyncio.sleep(0.05)

    def check_health(self) -> None:
        """Ray asks again and again, and replaces a replica that raises."""
        if self._server.engine.is_dead:
            raise RuntimeError(f"the engine is dead: {self._server.engine.why_dead}")

    async def answer(self, asked: Asked) -> AsyncGenerator[Any]:
        """Status and headers, then pieces of the body. Whoever closes it aborts the request."""
        sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        body = [{"type": "http.request", "body": asked.body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            return body.pop() if body else await asyncio.Future()

        answering = asyncio.create_task(self._server({**asked.scope}, receive, sent.put))
        try:
            while True:
                message = await sent.get()
                if message["type"] == "http.response.start":
                    yield message["status"], [(name.decode(), value.decode()) for name, value in message["headers"]]
                    continue
                yield message.get("body", b"")
                if not message.get("more_body", False):
                    return
        finally:
            answering.cancel()


@serve.deployment(ray_actor_options={"num_cpus": 0.1})
class Ingress:
    """What clients speak to."""

    def __init__(self, engine: DeploymentHandle[Any]) -> None:
        self._engine = engine.options(stream=True)

    async def __call__(self, request: Request) -> StreamingResponse:
        body = await request.body()
        scope = {name: request.scope[name] for name in SCOPE if name in request.scope}
        answer = aiter(self._engine.answer.remote(Asked(scope, body, prompt_of(body))))
        status, headers = await anext(answer)
        response = StreamingResponse(pieces(answer), status)
        response.raw_headers = [(name.encode(), value.encode()) for name, value in headers]
        return response


async def pieces(answer: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    async for piece in answer:
        yield piece


def prompt_of(body: bytes) -> str:
    """What is alike in requests that share a prefix; "" where there is no prompt."""
    try:
        given = json.loads(body or b"{}")
    except ValueError:
        return ""
    if not isinstance(given, dict):
        return ""
    return json.dumps(given.get("messages") or given.get("prompt") or given.get("input") or "", ensure_ascii=False)


app = Ingress.bind(Engine.bind())
