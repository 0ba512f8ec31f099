"""mini-vllm serve: the engine behind OpenAI's API."""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path

from typer import BadParameter

from mini_vllm.cli.common import KEY_VARIABLES, console, option, show_log
from mini_vllm.cli.server.roles import Disaggregation
from mini_vllm.cli.server.tenants import with_tenants
from mini_vllm.config import EngineConfig
from mini_vllm.errors import shown
from mini_vllm.observe.files import read_text

LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")  # a server on these answers to no other name


@dataclass(frozen=True)
class Access:
    """Where clients ask, which of them may, and what the log tells of it."""

    host: str = option("127.0.0.1", "The address to listen on.")
    port: int = option(8000, "The port; 0 is any free one.", min=0, max=65535)
    served_model_name: str | None = option(None, "The model's name in the API; by default --model.")
    api_key: list[str] | None = option(
        None,
        "A key that clients need; may be given again. `ps` shows it, so prefer the environment, "
        "or the next option.",
        envvar=KEY_VARIABLES,
    )
    api_key_file: Path | None = option(None, "A file of such keys, one in a line.", dir_okay=False)
    multi_tenant: Path | None = option(
        None, "A file of tenants: each has a key, its own cache, and a fair share."
    )
    allowed_origin: list[str] | None = option(
        None, "A page that may call from a browser, such as http://localhost:3000."
    )
    strict: bool = option(False, "Refuse requests with fields that are not known here.", "--strict")
    no_access_log: bool = option(False, "Write no line for each answer.", "--no-access-log")


@dataclass(frozen=True)
class Limits:
    """How long requests wait and run, and how many."""

    max_queue: int = option(1024, "Most choices (of a tenant) that wait for a token.", min=1)
    queue_timeout: float | None = option(
        None, "Seconds to a first token or answer; by default no limit.", min=0
    )
    request_timeout: float | None = option(
        None, "Seconds that a request may take; by default no limit.", min=0
    )
    engine_timeout: float = option(
        60, "Seconds without a word of the engine, until it counts as stuck.", min=1
    )
    shutdown_timeout: float = option(30, "Seconds for what is in flight at the end.", min=0)
    data_parallel_size: int = option(
        1, "Engines, each with the whole model; a request goes where its prefix is.", min=1
    )


def serve(
    config: EngineConfig, access: Access, limits: Limits, disaggregation: Disaggregation
) -> None:
    """Serve the model to OpenAI's clients, on this machine."""
    show_log(console(stderr=True))
    from mini_vllm.serving.app import Server
    from mini_vllm.serving.async_engine import AsyncEngine
    from mini_vllm.serving.options import ServerOptions
    from mini_vllm.serving.replicas.client import clients_of
    from mini_vllm.serving.run import run

    host = access.host
    name = config.model if access.served_model_name is None else access.served_model_name
    keys, origins = access.api_key or [], access.allowed_origin or []
    if access.api_key_file is not None:
        keys = [*keys, *(read_text(access.api_key_file, 1 << 20).split() or [""])]
    check_texts(name, keys, origins)
    config, tenants = with_tenants(
        disaggregation.of(config, limits.data_parallel_size), access.multi_tenant
    )
    options = ServerOptions(
        name,
        tuple(keys),
        tenants,
        tuple(origins),
        LOOPBACK if host in LOOPBACK else (),
        access.strict,
        not access.no_access_log,
        limits.queue_timeout,
        limits.request_timeout,
    )
    engine = AsyncEngine(
        config,
        max_queue=limits.max_queue,
        engine_timeout=limits.engine_timeout,
        metrics_name=name,
        make_client=clients_of(limits.data_parallel_size),
    )
    server = Server(engine, options, disaggregation.api_cls())

    asyncio.run(
        run(
            server,
            host=host,
            port=access.port,
            shutdown_timeout=limits.shutdown_timeout,
            on_open=lambda opened: console().print(
                f"{name} is served at http://{host}:{opened}/v1, Ctrl-C ends it",
                markup=False,
                soft_wrap=True,
            ),
        )
    )


def check_texts(name: str, keys: list[str], origins: list[str]) -> None:
    """Raises BadParameter for an empty key or name, and for an origin that is no page's."""
    for flag, values, pattern, kind in (
        ("--api-key", keys, r"\S", "key"),
        ("--allowed-origin", origins, r"\Ahttps?://[^/\s]+\Z", "page"),
        ("--served-model-name", [name], r"\S", "name"),
    ):
        for value in values:
            if not re.search(pattern, value):
                raise BadParameter(f"{flag} is no {kind}: {shown(value)}")
