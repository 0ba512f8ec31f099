"""The name of a full block's content: equal names mean equal tokens in the block and in all blocks
before it.

Two ways to make one: ExactBlockHash is found by the tokens themselves, sha256_block_hash gives 32
bytes that outlive the process. Source: hash_block_tokens in vllm/v1/core/kv_cache_utils.py, which
hashes a block with its parent's hash.
"""

import struct
from collections.abc import Callable, Hashable
from hashlib import sha256
from threading import Lock
from weakref import WeakValueDictionary


class ExactBlockHash:
    """The name of a full block's content: its tokens and, through its parent, all before them.

    One content has one name in a process: who asks for it again gets the same object, as long as
    anybody holds it. So two names are equal if and only if they are the same object. Comparing them
    looks at no token, and a collision of a hash only costs time.
    """

    __slots__ = ("__weakref__", "cache_salt", "parent", "token_ids")

    parent: "ExactBlockHash | None"
    token_ids: tuple[int, ...]
    cache_salt: str | None

    def __new__(
        cls, parent: "ExactBlockHash | None", token_ids: tuple[int, ...], cache_salt: str | None
    ) -> "ExactBlockHash":
        content = (parent, token_ids, cache_salt)
        with _lock:
            name = _names.get(content)
            if name is None:
                name = _names[content] = super().__new__(cls)
                name.parent, name.token_ids, name.cache_salt = content
        return name

    def __deepcopy__(self, memo: object) -> "ExactBlockHash":
        """A copy of a request has the same names."""
        return self


_names: WeakValueDictionary[
    tuple[ExactBlockHash | None, tuple[int, ...], str | None], ExactBlockHash
]
_names = WeakValueDictionary()
# two threads, each with an engine of its own, must not make two names of one content
_lock = Lock()


def sha256_block_hash(
    parent: bytes | None, token_ids: tuple[int, ...], cache_salt: str | None
) -> bytes:
    """The same name as 32 bytes, for when it must outlive the process or tenants must not be able
    to forge it.

    Every field is tagged and the tokens are 64-bit little-endian, so no two contents share an
    encoding.
    """
    if parent is None:
        salt = b"" if cache_salt is None else b"salt:" + cache_salt.encode(errors="surrogatepass")
        parent = sha256(b"root:" + salt).digest()
    return sha256(b"block:" + parent + struct.pack(f"<{len(token_ids)}q", *token_ids)).digest()


HASH_FUNCTIONS: dict[str, Callable[..., Hashable]] = {
    "exact": ExactBlockHash,
    "sha256": sha256_block_hash,
}
