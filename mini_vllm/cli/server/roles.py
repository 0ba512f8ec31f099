"""The options of a server that does one half of the work."""

import json
import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import BadParameter

from mini_vllm.cli.common import option
from mini_vllm.config import EngineConfig
from mini_vllm.errors import InvalidParameterError, shown
from mini_vllm.observe.files import printable, read_text
from mini_vllm.offload.remote.options import MIN_KEY, KVTransferConfig

if TYPE_CHECKING:
    from mini_vllm.serving.routes import Api

KEY_VARIABLE = "MINI_VLLM_KV_KEY"
DEFAULT_BYTES = 1 << 30  # of main memory, from which blocks are lent and into which they are pulled


@dataclass(frozen=True)
class Disaggregation:
    """One half of the work: a server that computes prompts, or one that decodes."""

    role: str | None = option(
        None, "prefill lends the blocks of prompts, decode pulls them; by default it does both."
    )
    kv_connector: str = option("tcp", "How blocks travel: tcp. nixl is not here.")
    kv_ip: str = option("127.0.0.1", "For prefill: the address that decoders call.")
    kv_port: int = option(5600, "For prefill: the port that decoders call.", min=1, max=65535)
    kv_peer: list[str] | None = option(
        None, "For decode: a host to pull from; may be given again. By default this machine."
    )
    kv_key_file: Path | None = option(
        None,
        f"A file with the secret of both roles, or {KEY_VARIABLE}; needed beyond this machine.",
        dir_okay=False,
    )
    kv_load_failure_policy: str = option(
        "recompute", "What becomes of a request whose blocks do not come: recompute or fail."
    )
    kv_lease_duration: float = option(
        30, "For prefill: seconds for which blocks are kept for the decoder.", min=0
    )

    kv_events_config: str | None = option(
        None, "JSON: publish what is cached, for routers; see docs/serving.md."
    )

    def of(self, config: EngineConfig, num_engines: int = 1) -> EngineConfig:
        """The engine with its role.

        Raises InvalidParameterError for a wrong option, BadParameter for one that nothing obeys.
        """
        self._refuse_idle(config, num_engines)
        key = read_key(self.kv_key_file)
        if self.kv_events_config is not None:
            config = replace(config, kv_events_config=read_events(self.kv_events_config))
        if self.role is None:
            return config
        options: dict[str, Any] = {
            "kv_role": self.role,
            "kv_connector": self.kv_connector,
            "kv_ip": self.kv_ip,
            "kv_port": self.kv_port,
            "kv_peers": tuple(self.kv_peer or ()),
            "kv_key": key,
            "kv_load_failure_policy": self.kv_load_failure_policy,
            "kv_lease_duration": self.kv_lease_duration,
        }
        KVTransferConfig(**options)
        return replace(
            config,
            kv_transfer_config=options,
            kv_offload_bytes=config.kv_offload_bytes or DEFAULT_BYTES,
        )

    def _refuse_idle(self, config: EngineConfig, num_engines: int) -> None:
        alone = {
            "--role": self.role,
            "--kv-events-config": self.kv_events_config,
            "--expert-loads": config.expert_loads,
        }
        for flag, value in alone.items():
            if num_engines > 1 and value is not None:
                raise BadParameter(f"{flag} is for one engine; --data-parallel-size {num_engines}")
        for field in fields(self):
            given = getattr(self, field.name) or None
            if self.role is None and field.name != "kv_events_config":
                flag = f"--{field.name.replace('_', '-')}"
                if given != field.default.default:  # type: ignore[union-attr]  # typer's
                    raise BadParameter(f"{flag} needs --role")

    def api_cls(self) -> "type[Api]":
        """What answers."""
        if self.role is not None:
            from mini_vllm.serving.roles.api import RoleApi

            return RoleApi
        from mini_vllm.serving.routes import Api

        return Api


def read_events(text: str) -> Any:
    """The options of KVEventsConfig. Raises InvalidParameterError for what are none."""
    from mini_vllm.engine.outside.publisher import KVEventsConfig

    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidParameterError(f"kv_events_config must be a JSON object, got {shown(text)}")
    KVEventsConfig(**found)
    return found


def read_key(path: Path | None) -> str | None:
    """The secret. Raises InvalidParameterError for one that could be guessed."""
    key = os.environ.get(KEY_VARIABLE) if path is None else read_text(path, 1 << 16).strip()
    if key is not None and len(key) < MIN_KEY:
        where = KEY_VARIABLE if path is None else printable(path)
        raise InvalidParameterError(
            f"{shown(str(where))} must have at least {MIN_KEY} characters, got {len(key)}"
        )
    return key
