"""The file of --multi-tenant: whose a key is, and how many blocks a tenant may have cached. TOML, a
table for each one.

[alice]
key = "sha256:9f86d0..."        # of the key, in 64 hexadecimal digits; or the key itself
quota = 200                     # if it has one
"""

from hashlib import sha256
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from mini_vllm.errors import InvalidParameterError
from mini_vllm.observe.files import printable, read_text

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


class Tenant(msgspec.Struct, forbid_unknown_fields=True):
    """One table of the file."""

    key: Annotated[str, Meta(pattern=r"^(sha256:[0-9a-f]{64}|(?!sha256:)\S+)$")]
    quota: Annotated[int, Meta(ge=0)] | None = None


def read_keys_file(path: Path) -> tuple[dict[str, str], dict[str, int]]:
    """By tenant the sha256 of its key, and its quota if it has one.

    Raises InvalidParameterError, without a key.
    """
    try:
        tenants = msgspec.toml.decode(read_text(path, 1 << 20), type=dict[Name, Tenant])
    except ValueError as error:  # of msgspec, of tomllib, or InvalidParameterError
        raise InvalidParameterError(f"{printable(path)} is no keys file: {error}") from None
    digests = {
        name: each.key[7:]
        if each.key.startswith("sha256:")
        else sha256(each.key.encode()).hexdigest()
        for name, each in tenants.items()
    }
    if not digests or len(set(digests.values())) < len(digests):
        raise InvalidParameterError(
            f"{printable(path)} must have tenants, each with a key of its own"
        )
    return digests, {name: each.quota for name, each in tenants.items() if each.quota is not None}
