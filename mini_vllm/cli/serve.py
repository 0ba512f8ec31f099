"""mini-vllm serve: the engine behind OpenAI's API."""

import asyncio
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from typer import BadParameter, Option

from mini_vllm.cli.common import console, option, show_log
from mini_vllm.config import EngineConfig
from mini_vllm.errors import shown

LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")  # a server on these answers to no other name


@dataclass(frozen=True)
class Access:
    """Which clients and pages may ask, and which fields."""

    api_key: list[str] | None = option(None, "A key that clients need; may be given again.")
    multi_tenant: Path | None = option(
        None, "A file of tenants: each has a key, its own cache, and a fair share."
    )
    allowed_origin: list[str] | None = option(
        None, "A page that may call from a browser, such as http://localhost:3000."
    )
    strict: bool = option(False, "Refuse requests with fields that are not known here.", "--strict")


def serve(
    config: EngineConfig,
    access: Access,
    host: Annotated[str, Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="The port; 0 is any free one.")] = 8000,
    served_model_name: Annotated[str | None, Option(help="The model's name in the API.")] = None,
    max_queue: Annotated[
        int, Option(min=1, help="Most choices (of a tenant) that wait for a token.")
    ] = 1024,
    queue_timeout: Annotated[
        float | None, Option(min=0, help="Seconds to a first token or answer.")
    ] = None,
    request_timeout: Annotated[
        float | None, Option(min=0, help="Seconds that a request may take.")
    ] = None,
    shutdown_timeout: Annotated[
        float, Option(min=0, help="Seconds for what is in flight at the end.")
    ] = 30,
) -> None:
    """Serve the model to OpenAI's clients, on this machine."""
    show_log(console(stderr=True))
    from mini_vllm.serving.app import Server
    from mini_vllm.serving.async_engine import AsyncEngine
    from mini_vllm.serving.options import ServerOptions
    from mini_vllm.serving.run import run

    name = config.model if served_model_name is None else served_model_name
    keys, origins = access.api_key or [], access.allowed_origin or []
    check_texts(name, keys, origins)
    config, tenants = with_tenants(config, access.multi_tenant)
    options = ServerOptions(
        name,
        tuple(keys),
        tenants,
        tuple(origins),
        LOOPBACK if host in LOOPBACK else (),
        access.strict,
        queue_timeout,
        request_timeout,
    )
    server = Server(AsyncEngine(config, max_queue=max_queue, metrics_name=name), options)

    asyncio.run(
        run(
            server,
            host=host,
            port=port,
            shutdown_timeout=shutdown_timeout,
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
        ("--api-key", keys, r"\S", "key or page"),
        ("--allowed-origin", origins, r"\Ahttps?://[^/\s]+\Z", "key or page"),
        ("--served-model-name", [name], r"\S", "name"),
    ):
        for value in values:
            if not re.search(pattern, value):
                raise BadParameter(f"{flag} is no {kind}: {shown(value)}")


def with_tenants(
    config: EngineConfig, keys_file: Path | None
) -> tuple[EngineConfig, dict[str, str]]:
    """The engine that tenants share, if there are tenants, and the sha256 of their keys by name."""
    if keys_file is None:
        return config, {}
    from mini_vllm.cli.keys_file import read_keys_file

    if config.scheduler not in ("v1", "tenants"):
        raise BadParameter(
            f"--multi-tenant has a scheduler of its own; --scheduler is {config.scheduler}"
        )
    tenants, quotas = read_keys_file(keys_file)
    return replace(
        config, scheduler="tenants", hash_function="sha256", cache_quotas=quotas
    ), tenants
