"""The tenants of a server, from a file of keys."""

from dataclasses import replace
from pathlib import Path

from typer import BadParameter

from mini_vllm.config import EngineConfig


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
