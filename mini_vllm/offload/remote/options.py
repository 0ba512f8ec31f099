"""KVTransferConfig: which half of the work an engine does, and where its blocks are pulled.

Source: KVTransferConfig in vllm/config/kv_transfer.py; kv_lease_duration is in its
kv_connector_extra_config.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeGuard

from mini_vllm.errors import (
    InvalidParameterError,
    Params,
    Rule,
    integer,
    is_number,
    is_writable,
    one_of,
    shown,
)
from mini_vllm.offload.remote.leases import LEASE_SECONDS

LOOPBACK = ("127.0.0.1", "localhost", "::1")
ANYWHERE = ("0.0.0.0", "::")
ROLES = ("prefill", "decode")
POLICIES = ("recompute", "fail")
MIN_KEY = 16  # characters: whoever asks without it may guess it in peace
MAX_ID = 256  # characters of a request id on the wire
HOST = Rule(lambda value: is_host(value), "the name or the address of a host, in ASCII")
RULES: Mapping[str, Rule] = {
    "kv_role": one_of(ROLES),
    "kv_connector": one_of(("tcp", "nixl")),
    "kv_load_failure_policy": one_of(POLICIES),
    "kv_ip": HOST,
    "kv_port": integer(1, 65535),
    "kv_peers": Rule(
        lambda value: isinstance(value, tuple) and all(map(is_host, value)),
        "names or addresses of hosts, in ASCII",
    ),
    "kv_key": Rule(
        lambda value: isinstance(value, str) and len(value) >= MIN_KEY and is_writable(value),
        f"a text of at least {MIN_KEY} characters that UTF-8 can write",
    ).or_none(),
    "kv_lease_duration": Rule(lambda value: is_number(value, 0, 1e6) and value > 0, "in (0, 1e6]"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KVTransferConfig(Params):
    """The role of an engine. Raises InvalidParameterError, or UnknownParameterError."""

    kv_role: str
    """ "prefill" computes prompts and lends their blocks; "decode" pulls them."""
    kv_connector: str = "tcp"
    """ "tcp"; "nixl" has its place here, and is not installed with this engine."""
    kv_ip: str = "127.0.0.1"
    """Of the role prefill: where it lends blocks. A decoder is told this address."""
    kv_port: int = 5600
    kv_peers: tuple[str, ...] = ()
    """Of the role decode: the hosts from which it pulls; () is this machine alone."""
    kv_key: str | None = field(default=None, repr=False)
    """A secret that both have. Without one the blocks are lent on this machine alone."""
    kv_load_failure_policy: str = "recompute"
    """What becomes of a request whose blocks do not come: "recompute", or "fail"."""
    kv_lease_duration: float = LEASE_SECONDS
    """Seconds for which the blocks of a prompt are kept for the decoder."""

    def __post_init__(self) -> None:
        self.normalise()
        self.check(RULES)
        self.require(
            "kv_connector", self.kv_connector != "nixl", "'tcp': this engine has no NIXL to load"
        )
        self.require("kv_ip", self.kv_ip not in ANYWHERE, "an address that a decoder can call")
        is_near = self.kv_ip in LOOPBACK and all(peer in LOOPBACK for peer in self.kv_peers)
        if not is_near and self.kv_key is None:
            raise InvalidParameterError(
                "kv_key is missing: beyond this machine blocks are lent and pulled with a key, "
                f"and kv_ip is {shown(self.kv_ip)}, kv_peers {shown(self.kv_peers)}"
            )

    @property
    def trusted(self) -> tuple[str, ...]:
        """The hosts from which blocks are taken."""
        return self.kv_peers or LOOPBACK


class Peer(NamedTuple):
    """Where a prefiller lends blocks."""

    host: str
    port: int


class RemotePrefill(NamedTuple):
    """Of a request that is to be decoded here: who has its blocks, and under which lease."""

    peer: Peer
    request_id: str


def is_host(name: Any) -> bool:
    """Whether a socket can look for a host of this name."""
    try:
        return re.fullmatch(r"[\w.:%-]{1,255}", name, re.ASCII) is not None and bool(
            name.encode("idna")  # as a socket does
        )
    except (TypeError, UnicodeError):
        return False


def is_remote_id(name: Any) -> TypeGuard[str]:
    """Whether it can name a lease, which has the place of a block behind it: no more bytes than
    characters.
    """
    return isinstance(name, str) and re.fullmatch("[!-~]{1,200}", name) is not None


def lent_as(params: Any) -> str | None:
    """The id under which the blocks of a prompt are to be lent; None if nobody asks for them."""
    if not (isinstance(params, Mapping) and params.get("do_remote_decode")):
        return None
    name = params.get("remote_request_id")
    return name if is_remote_id(name) else None


def remote_prefill(params: Any) -> RemotePrefill | None:
    """Where the blocks of a request are; None if it is to be computed here.

    Source: get_num_new_matched_tokens and update_state_after_alloc in
    vllm/distributed/kv_transfer/kv_connector/v1/nixl/pull_scheduler.py.
    """
    if not (isinstance(params, Mapping) and params.get("do_remote_prefill")):
        return None
    host, port, name = (params.get(f"remote_{each}") for each in ("host", "port", "request_id"))
    if not (isinstance(host, str) and isinstance(port, int) and is_remote_id(name)):
        return None
    return RemotePrefill(Peer(host, port), name)
