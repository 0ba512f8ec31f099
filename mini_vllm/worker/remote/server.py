"""BlockServer: lends the leased blocks of a prefiller to decoders that ask for them by name."""

import logging
import socket
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from threading import BoundedSemaphore, Lock, Thread

from mini_vllm.errors import InvalidParameterError, shown
from mini_vllm.offload.remote.options import MAX_ID, KVTransferConfig
from mini_vllm.offload.remote.shelf import Shelf
from mini_vllm.step import CpuBlockId
from mini_vllm.worker.remote.wire import (
    DIGEST,
    MAX_NAMES,
    TALK_SECONDS,
    Head,
    Line,
    SealError,
    WireError,
)

NUM_LENDERS = 16  # threads
MOST_CONNECTIONS = 128  # served and waiting; a further one is closed at once
MOST_UNKNOWN = 12  # of one host, whose seal is not there yet; a further one is closed at once
PAUSE = 0.1  # seconds, where no connection can be taken
SECONDS_TO_ASK = 2.0  # until the head with its seal is there

logger = logging.getLogger("mini_vllm")


class BlockServer:
    """Threads of its own: one takes connections, a few talk. None of them changes a block.

    read: the bytes of a block of main memory. Raises InvalidParameterError if the port cannot be
    opened.
    """

    def __init__(
        self,
        config: KVTransferConfig,
        compatibility: str,
        shelf: Shelf,
        read: Callable[[CpuBlockId], memoryview],
    ) -> None:
        self.config = config
        self.compatibility = compatibility
        self.shelf = shelf
        self._read = read
        self._is_open = True
        self._lock, self._unknown = Lock(), Counter[str]()  # connections, by host
        self._free = BoundedSemaphore(MOST_CONNECTIONS)
        host, port = config.kv_ip, config.kv_port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._listening = socket.create_server((host, port), family=family)
        except OSError as error:
            raise InvalidParameterError(
                f"kv_ip {shown(host)}, kv_port {port} cannot be opened: {error.strerror or error}"
            ) from error
        self._lenders = ThreadPoolExecutor(NUM_LENDERS, "kv-lend")
        self._thread = Thread(target=self._accept, name="kv-accept", daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while self._is_open:
            try:
                connection, (host, *_) = self._listening.accept()
            except OSError:  # for want of files, say
                time.sleep(PAUSE * self._is_open)
                continue
            with self._lock:
                may_talk = self._is_open and self._unknown[host] < MOST_UNKNOWN
                if may_talk := may_talk and self._free.acquire(blocking=False):
                    self._unknown[host] += 1
                    self._lenders.submit(self._serve, connection, host)
            if not may_talk:
                connection.close()

    def _know(self, host: str) -> None:
        """A connection has shown that it has the key, or has ended."""
        with self._lock:
            self._unknown[host] -= 1
            self._unknown += Counter()  # without what is 0

    def _serve(self, connection: socket.socket, host: str) -> None:
        try:
            with ExitStack() as stack, connection:
                stack.callback(self._know, host)
                line = Line(connection, self.config.kv_key, SECONDS_TO_ASK)
                self._talk(line, stack.close)
        except (OSError, WireError, ValueError) as error:
            logger.info("a decoder's connection has ended: %s", error)
        except Exception:
            logger.exception("lending blocks has failed")
        finally:
            self._free.release()

    def _talk(self, line: Line, know: Callable[[], None]) -> None:
        line.greet()
        try:
            head = line.read_head()
        except SealError as error:
            line.send_head({"error": str(error)})
            raise
        know()
        line.allow(max(TALK_SECONDS, self.config.kv_lease_duration))
        if head.get("compatibility") != self.compatibility:
            line.send_head({"error": "its model, dtype, block layout or version is another one"})
            return
        what, request_ids = head.get("what"), head.get("request_ids")
        if not isinstance(request_ids, list) or not all(map(is_id, request_ids)):
            raise WireError("request_ids must be a list of texts")
        if what == "pull" and len(request_ids) == 1:
            self._lend(line, request_ids[0], names_of(line, head))
        elif what in ("extend", "release"):
            done = self.shelf.extend if what == "extend" else self.shelf.release
            line.send_head({"num_leases": done(request_ids)})
        else:
            raise WireError(f"there is no {shown(what)}")

    def _lend(self, line: Line, request_id: str, names: list[bytes]) -> None:
        """The blocks of the longest prefix of the names that is leased."""
        with self.shelf.reading(request_id) as found:
            if found is None:
                line.send_head({"error": "there is no such lease: it has run out, or never was"})
                return
            lease, places = found
            blocks = []
            for name in names:
                if (place := places.get(name)) is None:
                    break
                blocks.append((name, self._read(place)))
            num_bytes = len(blocks[0][1]) if blocks else 0
            generation = lease.generation
            line.send_head(
                {"generation": generation, "num_blocks": len(blocks), "block_bytes": num_bytes}
            )
            for name, block in blocks:
                # Another engine core may have taken the memory: what was read is looked at again.
                copied = memoryview(bytes(block))
                checksum = line.checksum(line.their_nonce, generation, name, copied)
                if not self.shelf.holds(lease, name):
                    raise WireError("the block is gone: the engine has begun again")
                line.send(checksum, copied)
            if len(blocks) == len(names) and line.read(1):
                self.shelf.release([request_id])

    def close(self) -> None:
        with self._lock:
            self._is_open = False
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._lenders.shutdown(wait=False, cancel_futures=True)


def is_id(value: object) -> bool:
    """Whether it can be the id of a lease."""
    return isinstance(value, str) and 0 < len(value) <= MAX_ID


def names_of(line: Line, head: Head) -> list[bytes]:
    """The names that stand behind the head."""
    number = head.get("num_names")
    if type(number) is not int or not 0 < number <= MAX_NAMES:
        raise WireError(f"num_names must be in [1, {MAX_NAMES}], got {shown(number)}")
    data = line.read(number * DIGEST)
    return [data[start : start + DIGEST] for start in range(0, len(data), DIGEST)]
