"""What of `mini-vllm serve` is the server's and not the engine's."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ServerOptions:
    """Keys and pages that are let in, the model's name, and how long an answer may take.

    Times are in seconds; None is no limit.
    """

    served_model_name: str
    api_keys: tuple[str, ...] = ()
    """With tenants, those of the server's operator, who may see what all tenants do."""
    tenants: Mapping[str, str] = field(default_factory=dict)
    """By name, the sha256 of a tenant's key in hexadecimal digits."""
    allowed_origins: tuple[str, ...] = ()
    """Of pages of other hosts that may call this server from a browser."""
    allowed_hosts: tuple[str, ...] = ()
    """Names by which clients may call it; () is any. A page that points its own name at this
    machine is kept out.
    """
    strict: bool = False
    """A request with a field that this server does not have is refused."""
    access_log: bool = True
    """Each answer gets a line in the log."""
    queue_timeout: float | None = None
    request_timeout: float | None = None
