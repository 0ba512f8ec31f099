"""The name of a full block's content: equal names mean equal tokens in the block and in all blocks before it.

Two ways to make one: ExactBlockHash compares tokens, sha256_block_hash gives 32 bytes that outlive the process.
Source: hash_block_tokens in vllm/v1/core/kv_cache_utils.py, which hashes a block with its parent's hash.
"""

import struct
from collections.abc import Callable, Hashable
from hashlib import sha256


class ExactBlockHash:
    """The name of a full block's content: its tokens and, through its parent, all before them.

    Two names are equal if and only if the whole prefix and the salt are: a collision of the hash only costs time.
    Comparing walks up both chains until they meet. Then the other name joins the chain of this one (in a dictionary:
    of the one that was there first), so that the next block of the same prefix meets after one step: looking up a
    prefix stays linear in its length, however many requests share it.
    """

    __slots__ = ("_hash", "cache_salt", "parent", "token_ids")

    def __init__(self, parent: "ExactBlockHash | None", token_ids: tuple[int, ...], cache_salt: str | None) -> None:
        self.parent = parent
        self.token_ids = token_ids
        self.cache_salt = cache_salt
        self._hash = self.combine(parent, token_ids, cache_salt)

    @staticmethod
    def combine(parent: "ExactBlockHash | None", token_ids: tuple[int, ...], cache_salt: str | None) -> int:
        return hash((parent, token_ids, cache_salt))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExactBlockHash):
            return NotImplemented
        a, b = self, other
        while a is not b:
            if a._hash != b._hash or a.token_ids != b.token_ids or a.cache_salt != b.cache_salt:
                return False
            if a.parent is None or b.parent is None:
                if a.parent is not b.parent:
                    return False
                break
            a, b = a.parent, b.parent
        other.parent = self.parent
        return True


def sha256_block_hash(parent: bytes | None, token_ids: tuple[int, ...], cache_salt: str | None) -> bytes:
    """The same name as 32 bytes, for when it must outlive the process or tenants must not be able to forge it.

    Every field is tagged and the tokens are 64-bit little-endian, so no two contents share an encoding.
    """
    if parent is None:
        salt = b"" if cache_salt is None else b"salt:" + cache_salt.encode(errors="surrogatepass")
        parent = sha256(b"root:" + salt).digest()
    return sha256(b"block:" + parent + struct.pack(f"<{len(token_ids)}q", *token_ids)).digest()


HASH_FUNCTIONS: dict[str, Callable[..., Hashable]] = {"exact": ExactBlockHash, "sha256": sha256_block_hash}
