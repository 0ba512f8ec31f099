"""What a decoder says to a prefiller: pull, extend, release. Each is a conversation of its own, in
an io thread, and none of them raises.
"""

import logging
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Timer

from mini_vllm.errors import shown
from mini_vllm.offload.remote.options import KVTransferConfig, Peer
from mini_vllm.offload.remote.work import Pull, Pulled, Tell
from mini_vllm.worker.remote.wire import DIGEST, TALK_SECONDS, Line, WireError

CONNECT_SECONDS = 2.0
GREETING_SECONDS = 5.0  # from then on: all who talk there may be busy
TELL_SECONDS = 5.0

logger = logging.getLogger("mini_vllm")


class Borrower:
    """compatibility: what both must have alike."""

    def __init__(self, config: KVTransferConfig, compatibility: str) -> None:
        self.config = config
        self.compatibility = compatibility
        self._open: dict[socket.socket, bool] = {}  # and whether it pulls
        self._may_pull = self._may_tell = True
        self._timer = Timer(0.0, self.close)

    def hang_up(self) -> None:
        """End all conversations: what has not arrived is a miss."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def drain(self, seconds: float) -> None:
        """Nothing is pulled any longer. What is told is told in so many seconds from now on."""
        self._may_pull = False
        for connection, pulls in list(self._open.items()):
            if pulls:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._timer = Timer(seconds, self.close)
        self._timer.daemon = True
        self._timer.start()

    def close(self) -> None:
        """The engine talks to no other one any longer."""
        self._timer.cancel()
        self._may_pull = self._may_tell = False
        self.hang_up()

    @contextmanager
    def _line(self, peer: Peer, seconds: float, pulls: bool) -> Iterator[Line]:
        if not self._may_tell:
            raise WireError("this engine ends")
        with socket.create_connection(peer, CONNECT_SECONDS) as connection:
            self._open[connection] = pulls
            try:
                if not (self._may_pull if pulls else self._may_tell):
                    raise WireError("this engine ends")
                line = Line(connection, self.config.kv_key, GREETING_SECONDS)
                line.hear_greeting()  # who is silent holds up no thread
                line.allow(seconds)
                yield line
            finally:
                del self._open[connection]

    def pull(self, job: Pull, blocks: Sequence[memoryview]) -> Pulled:
        """Fill the blocks, from the first on. Those behind the number that is returned hold
        anything.
        """
        arrived = 0
        try:
            seconds = max(TALK_SECONDS, self.config.kv_lease_duration)
            with self._line(job.peer, seconds, pulls=True) as line:
                self._ask(line, "pull", [job.request_id], num_names=len(job.names))
                line.send(b"".join(job.names))
                head = line.read_head()
                num_blocks, why = self._promised(head, blocks[0])
                for name, block in list(zip(job.names, blocks, strict=True))[:num_blocks]:
                    checksum = line.read(DIGEST)
                    line.read_into(block)
                    if checksum != line.checksum(line.nonce, head["generation"], name, block):
                        raise WireError(f"block {arrived} is not the one that was lent")
                    arrived += 1
                if arrived == len(job.names):
                    line.send(b"\x01")
        except Exception as error:
            text = str(error) if isinstance(error, WireError) else shown(error)
            return Pulled(arrived, f"{job.peer.host}:{job.peer.port}: {text}")
        return Pulled(arrived, why)

    def _promised(self, head: dict[str, object], block: memoryview) -> tuple[int, str]:
        """How many blocks come, and why not more."""
        num_blocks, num_bytes = head.get("num_blocks"), head.get("block_bytes")
        if "error" in head or not isinstance(num_blocks, int):
            raise WireError(shown(head.get("error")))
        if num_blocks and num_bytes != len(block):
            raise WireError(f"a block there has {num_bytes} bytes, here {len(block)}")
        return num_blocks, f"the prefiller has {num_blocks} of its blocks"

    def tell(self, job: Tell) -> bool:
        """Whether it was heard."""
        try:
            with self._line(job.peer, TELL_SECONDS, pulls=False) as line:
                self._ask(line, job.what, job.request_ids)
                return "error" not in line.read_head()
        except Exception as error:
            logger.info("%s was not heard at %s: %s", job.what, job.peer, error)
            return False

    def _ask(self, line: Line, what: str, request_ids: Sequence[str], **more: int) -> None:
        line.send_head(
            {
                "what": what,
                "compatibility": self.compatibility,
                "request_ids": list(request_ids),
                **more,
            }
        )
