"""A ring of slots in shared memory, by which one process tells several readers the same.

    slot    | written | read by 0 | .. | read by n - 1 | length | data |
             1 byte    1 byte each                       8 bytes

The writer fills the slots in turn, and each reader reads them in turn. A slot is written again when
every reader has read it: `written` goes to 0 first, then the readers' bytes, then come length and
data, and `written` goes to 1 last. So a reader sees a whole message or none, wherever a process is
killed. Source: ShmRingBuffer in vllm/distributed/device_communicators/shm_broadcast.py.
"""

from collections.abc import MutableSequence
from threading import Lock
from typing import Any

NUM_SLOTS = 4  # at most two steps are in flight
SLOT_BYTES = 1 << 18  # for a message; steps of 256 requests have some 20 KiB
LENGTH_BYTES = 8


class Ring:
    """Over a buffer of Ring.size_for(num_readers) bytes, of which all are 0 at first.

    One thread of a process uses it: the writer's try_write(), or one reader's try_read().
    """

    def __init__(
        self,
        buffer: Any,
        num_readers: int,
        *,
        num_slots: int = NUM_SLOTS,
        slot_bytes: int = SLOT_BYTES,
    ) -> None:
        self.slot_bytes = slot_bytes
        self._buffer: MutableSequence[Any] = buffer
        self._num_readers, self._num_slots = num_readers, num_slots
        self._next = 0  # messages written, or read, by this process
        self._fence = Lock()

    @staticmethod
    def size_for(
        num_readers: int, *, num_slots: int = NUM_SLOTS, slot_bytes: int = SLOT_BYTES
    ) -> int:
        """Bytes of a ring."""
        return num_slots * (1 + num_readers + LENGTH_BYTES + slot_bytes)

    def try_write(self, message: bytes) -> bool:
        """Write a message of at most slot_bytes; False if a reader has not read the slot yet."""
        buffer, start, flags = self._buffer, self._slot_start(), self._num_readers
        if buffer[start] and not all(buffer[start + 1 : start + 1 + flags]):
            return False
        buffer[start] = 0
        self._order()
        buffer[start + 1 : start + 1 + flags] = bytes(flags)
        data = start + 1 + flags
        buffer[data : data + LENGTH_BYTES] = len(message).to_bytes(LENGTH_BYTES, "little")
        data += LENGTH_BYTES
        buffer[data : data + len(message)] = message
        self._order()
        buffer[start] = 1
        self._next += 1
        return True

    def try_read(self, reader: int) -> bytes | None:
        """The next message for a reader, in [0, num_readers); None if there is none yet."""
        buffer, start = self._buffer, self._slot_start()
        # this reader's byte first: once it is 0, `written` is not that of the last lap
        if buffer[start + 1 + reader]:
            return None
        self._order()
        if not buffer[start]:
            return None
        self._order()
        data = start + 1 + self._num_readers
        length = int.from_bytes(buffer[data : data + LENGTH_BYTES], "little")
        data += LENGTH_BYTES
        message = bytes(buffer[data : data + length])
        self._order()
        buffer[start + 1 + reader] = 1
        self._next += 1
        return message

    def _slot_start(self) -> int:
        size = self.size_for(self._num_readers, num_slots=1, slot_bytes=self.slot_bytes)
        return self._next % self._num_slots * size

    def _order(self) -> None:
        """What was stored before is seen before what is stored after: a lock is a fence."""
        with self._fence:
            pass
