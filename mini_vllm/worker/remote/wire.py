"""How blocks travel from one engine to another: a conversation over one TCP connection.

    lender    {"protocol", "nonce"}
    borrower  {"what", "compatibility", "nonce", ...}, its seal, and for a pull the names
    lender    {"generation", "num_blocks", "block_bytes"} or {"error"}, and its seal
    lender    each block behind its checksum; the first of the names on, without a gap
    borrower  one byte, when it has them

A seal is an HMAC with the key that both have, over the nonce of the other side and the head, so
that neither can be played by a third program. The key of a checksum is made of that key, the nonce,
the generation of the lease and the name of the block: one that was flipped, swapped, recorded or
left from another lease is refused. Nothing is encrypted. Without a key the same holds against
mistakes, and not against an attacker.

Standard library only. Source: NixlHandshakePayload in
vllm/distributed/kv_transfer/kv_connector/v1/nixl/metadata.py, which compares a compatibility hash
before it decodes anything.
"""

import hmac
import json
import re
import secrets
import socket
import struct
import time
from collections.abc import Callable
from hashlib import blake2b, sha256
from typing import Any

PROTOCOL = 1
MAX_HEAD = 4096  # bytes
TALK_SECONDS = 30.0  # at least, from the heads on: a lease that lasts longer gives more
MAX_NAMES = 1 << 17
DIGEST = 32  # bytes of a seal, a name and a checksum
LENGTH = struct.Struct("<I")
Head = dict[str, Any]


class WireError(Exception):
    """The other side has said something else than the protocol allows, or no."""


class SealError(WireError):
    """The other side has another key, or none."""


class Line:
    """A connection with a deadline: no byte is waited for beyond it.

    Raises OSError or WireError where the other side fails.
    """

    def __init__(self, connection: socket.socket, key: str | None, seconds: float) -> None:
        self._connection = connection
        self._key = (key or "").encode()
        self._clock: Callable[[], float] = time.monotonic
        self.allow(seconds)
        self.nonce = secrets.token_hex(16)
        self.their_nonce = ""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def allow(self, seconds: float) -> None:
        """From now on."""
        self._end = self._clock() + seconds

    def send(self, *parts: bytes | memoryview) -> None:
        for part in parts:
            self._wait()
            self._connection.sendall(part)

    def read_into(self, view: memoryview) -> None:
        """Fill all of it."""
        num_read = 0
        while num_read < len(view):
            self._wait()
            num_new = self._connection.recv_into(view[num_read:])
            if not num_new:
                raise WireError("the connection was closed")
            num_read += num_new

    def read(self, num_bytes: int) -> bytes:
        data = bytearray(num_bytes)
        self.read_into(memoryview(data))
        return bytes(data)

    def _wait(self) -> None:
        left = self._end - self._clock()
        if left <= 0:
            raise WireError("it has taken too long")
        self._connection.settimeout(left)

    def greet(self) -> None:
        body = json.dumps({"protocol": PROTOCOL, "nonce": self.nonce}).encode()
        self.send(LENGTH.pack(len(body)), body)

    def hear_greeting(self) -> None:
        head = self._read_head()[1]
        if head.get("protocol") != PROTOCOL:
            raise WireError(f"protocol {PROTOCOL} is spoken here, not {head.get('protocol')!r}")
        self.their_nonce = nonce_of(head)

    def send_head(self, head: Head) -> None:
        """A head and its seal."""
        body = json.dumps({**head, "nonce": self.nonce}).encode()
        self.send(LENGTH.pack(len(body)), body, self._seal(self.their_nonce, body))

    def read_head(self) -> Head:
        """A head whose seal is right. Of the borrower's it is the first word: its nonce is in
        it.
        """
        body, head = self._read_head()
        self.their_nonce = self.their_nonce or nonce_of(head)
        if not hmac.compare_digest(self.read(DIGEST), self._seal(self.nonce, body)):
            raise SealError("kv_key is another one there")
        return head

    def _read_head(self) -> tuple[bytes, Head]:
        (num_bytes,) = LENGTH.unpack(self.read(LENGTH.size))
        if num_bytes > MAX_HEAD:
            raise WireError(f"a head has at most {MAX_HEAD} bytes, got {num_bytes}")
        body = self.read(num_bytes)
        try:
            head = json.loads(body)
        except (ValueError, RecursionError):
            head = None
        if not isinstance(head, dict):
            raise WireError("a head is a JSON object")
        return body, head

    def _seal(self, nonce: str, body: bytes) -> bytes:
        return hmac.digest(self._key, nonce.encode() + b":" + body, "sha256")

    def checksum(self, nonce: str, generation: int, name: bytes, block: memoryview) -> bytes:
        """Of a block, in a conversation whose borrower has said this nonce."""
        about = f"{nonce}:{generation}:".encode() + name
        key = sha256(self._key + b":" + about).digest()
        return blake2b(block, digest_size=DIGEST, key=key).digest()


def nonce_of(head: Head) -> str:
    """What the other side has drawn for this conversation."""
    nonce = head.get("nonce")
    if not isinstance(nonce, str) or re.fullmatch("[0-9a-f]{32}", nonce) is None:
        raise WireError("a nonce has 32 hexadecimal digits")
    return nonce
