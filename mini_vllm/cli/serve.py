"""mini-vllm serve: the engine behind OpenAI's API."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from mini_vllm.cli.common import console, show_log
from mini_vllm.config import EngineConfig
from mini_vllm.errors import shown

LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")  # a server on these answers to no other name


def serve(
    config: EngineConfig,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 is any free one.")] = 8000,
    served_model_name: Annotated[str | None, typer.Option(help="The model's name in the API.")] = None,
    api_key: Annotated[list[str] | None, typer.Option(help="A key that clients need; may be given again.")] = None,
    multi_tenant: Annotated[
        Path | None, typer.Option(help="A file of tenants: each has a key, its own cache, and a fair share.")
    ] = None,
    allowed_origin: Annotated[
        list[str] | None, typer.Option(help="A page that may call from a browser, such as http://localhost:3000.")
    ] = None,
    max_queue: Annotated[int, typer.Option(min=1, help="Most choices (of a tenant) that wait for a token.")] = 1024,
    queue_timeout: Annotated[float | None, typer.Option(min=0, help="Seconds to a first token or answer.")] = None,
    request_timeout: Annotated[float | None, typer.Option(min=0, help="Seconds that a request may take.")] = None,
    shutdown_timeout: Annotated[float, typer.Option(min=0, help="Seconds for what is in flight at the end.")] = 30,
) -> None:
    """Serve the model to OpenAI's clients, on this machine."""
    show_log(console(stderr=True))
    from mini_vllm.cli.keys_file import read_keys_file
    from mini_vllm.serving.app import Server
    from mini_vllm.serving.async_engine import AsyncEngine
    from mini_vllm.serving.options import ServerOptions
    from mini_vllm.serving.run import run

    keys, origins = tuple(api_key or ()), tuple(allowed_origin or ())
    for option, given in (("--api-key", keys), ("--allowed-origin", origins)):
        for value in given:
            if not value.strip() or (option == "--allowed-origin" and not re.fullmatch(r"https?://[^/\s]+", value)):
                raise typer.BadParameter(f"{option} is no key or page: {shown(value)}")
    if served_model_name is not None and not served_model_name.strip():
        raise typer.BadParameter(f"--served-model-name is no name: {shown(served_model_name)}")
    tenants: dict[str, str] = {}
    if multi_tenant is not None and config.scheduler not in ("v1", "tenants"):
        raise typer.BadParameter(f"--multi-tenant has a scheduler of its own; --scheduler is {config.scheduler}")
    if multi_tenant is not None:
        tenants, quotas = read_keys_file(multi_tenant)
        config = replace(config, scheduler="tenants", hash_function="sha256", cache_quotas=quotas)
    name = served_model_name or config.model
    hosts = LOOPBACK if host in LOOPBACK else ()
    options = ServerOptions(name, keys, tenants, origins, hosts, queue_timeout, request_timeout)
    server = Server(AsyncEngine(config, max_queue=max_queue, metrics_name=name), options)

    def tell(opened: int) -> None:
        console().print(f"{name} is served at http://{host}:{opened}/v1, Ctrl-C ends it", markup=False, soft_wrap=True)

    asyncio.run(run(server, host=host, port=port, shutdown_timeout=shutdown_timeout, on_open=tell))
