# === first_and_last
"""A linked list without end pieces: two names for the ends, every end a case of its own, and a set of who is inside."""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import KVCacheBlock


class FreeKVCacheBlockQueue:
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._first = self._last = None
        self._inside = set()
        self.append_n(blocks)

    @property
    def num_free_blocks(self) -> int:
        return len(self._inside)

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        if num_blocks > len(self._inside):
            raise ValueError("too few blocks are free")
        return [self.popleft() for _ in range(num_blocks)]

    def popleft(self) -> KVCacheBlock:
        if self._first is None:
            raise ValueError("no block is free")
        block = self._first
        self.remove(block)
        return block

    def remove(self, block: KVCacheBlock) -> None:
        if block.block_id not in self._inside:
            raise ValueError(f"{block} is not free")
        self._inside.discard(block.block_id)
        before, after = block.prev_free_block, block.next_free_block
        if before is None:
            self._first = after
        else:
            before.next_free_block = after
        if after is None:
            self._last = before
        else:
            after.prev_free_block = before
        block.prev_free_block = block.next_free_block = None

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in blocks:
            block.prev_free_block = self._last
            if self._last is None:
                self._first = block
            else:
                self._last.next_free_block = block
            self._last = block
            self._inside.add(block.block_id)

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in reversed(list(blocks)):
            block.next_free_block = self._first
            if self._first is None:
                self._last = block
            else:
                self._first.prev_free_block = block
            self._first = block
            self._inside.add(block.block_id)

    def block_ids(self) -> list[int]:
        ids, block = [], self._first
        while block is not None:
            ids.append(block.block_id)
            block = block.next_free_block
        return ids


# === methods_in_a_base
"""Putting in at either end is a base class of the queue."""

from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import KVCacheBlock


class Ends:
    """Puts in at either end."""

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Put blocks at the back, in the order given: the last one is taken last."""
        last = self._tail.prev_free_block
        assert last is not None
        for block in blocks:
            last.next_free_block = block
            block.prev_free_block = last
            last = block
            self.num_free_blocks += 1
        last.next_free_block = self._tail
        self._tail.prev_free_block = last

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Put blocks at the front, in the order given: the first one is taken next."""
        first = self._head.next_free_block
        last = self._head
        for block in blocks:
            last.next_free_block = block
            block.prev_free_block = last
            last = block
            self.num_free_blocks += 1
        assert first is not None
        last.next_free_block = first
        first.prev_free_block = last


class FreeKVCacheBlockQueue(Ends):
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self.num_free_blocks = 0
        self._head = KVCacheBlock(-1)
        self._tail = KVCacheBlock(-1)
        self._head.next_free_block = self._tail
        self._tail.prev_free_block = self._head
        self.append_n(blocks)

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        """Take the first num_blocks blocks. Raises ValueError, and takes none, if there are fewer."""
        if num_blocks > self.num_free_blocks:
            raise ValueError(f"cannot take {num_blocks} blocks, {self.num_free_blocks} are free")
        taken = []
        block = self._head.next_free_block
        for _ in range(num_blocks):
            assert block is not None
            taken.append(block)
            following = block.next_free_block
            block.prev_free_block = block.next_free_block = None
            block = following
        assert block is not None
        self._head.next_free_block = block
        block.prev_free_block = self._head
        self.num_free_blocks -= num_blocks
        return taken

    def popleft(self) -> KVCacheBlock:
        return self.popleft_n(1)[0]

    def remove(self, block: KVCacheBlock) -> None:
        """Take a block out of wherever it stands. Raises ValueError if it is not in the queue."""
        before, after = block.prev_free_block, block.next_free_block
        if before is None or after is None:
            raise ValueError(f"{block} is not free")
        before.next_free_block = after
        after.prev_free_block = before
        block.prev_free_block = block.next_free_block = None
        self.num_free_blocks -= 1

    def block_ids(self) -> list[int]:
        """The ids in the order in which they would be taken."""
        ids = []
        block = self._head.next_free_block
        while block is not None and block is not self._tail:
            ids.append(block.block_id)
            block = block.next_free_block
        return ids


# === neighbours_by_id
"""Neighbours are kept by id in two dictionaries, with None before the front and behind the back; blocks stay untouched."""

from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import KVCacheBlock


class FreeKVCacheBlockQueue:
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._block: dict[int, KVCacheBlock] = {}
        self._after: dict[int | None, int | None] = {None: None}
        self._before: dict[int | None, int | None] = {None: None}
        self.append_n(blocks)

    @property
    def num_free_blocks(self) -> int:
        return len(self._block)

    def _insert(self, block: KVCacheBlock, before: int | None, after: int | None) -> None:
        self._block[block.block_id] = block
        for left, right in ((before, block.block_id), (block.block_id, after)):
            self._after[left], self._before[right] = right, left

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        if num_blocks > self.num_free_blocks:
            raise ValueError("too few")
        return [self.popleft() for _ in range(num_blocks)]

    def popleft(self) -> KVCacheBlock:
        first = self._after[None]
        if first is None:
            raise ValueError("empty")
        block = self._block[first]
        self.remove(block)
        return block

    def remove(self, block: KVCacheBlock) -> None:
        if self._block.pop(block.block_id, None) is None:
            raise ValueError(f"{block} is not in")
        before, after = self._before.pop(block.block_id), self._after.pop(block.block_id)
        self._after[before], self._before[after] = after, before

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in blocks:
            self._insert(block, self._before[None], None)

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        before = None
        for block in blocks:
            self._insert(block, before, self._after[before])
            before = block.block_id

    def block_ids(self) -> list[int]:
        ids, at = [], self._after[None]
        while at is not None:
            ids.append(at)
            at = self._after[at]
        return ids


# === numbered_places
"""Places have numbers that run below zero at the front; who leaves from the middle leaves a hole, passed over once."""

from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import KVCacheBlock


class FreeKVCacheBlockQueue:
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._at: dict[int, KVCacheBlock] = {}
        self._place: dict[int, int] = {}
        self._front = self._end = 0
        self.num_free_blocks = 0
        self.append_n(blocks)

    def _put(self, place: int, block: KVCacheBlock) -> None:
        self._at[place], self._place[block.block_id] = block, place
        self.num_free_blocks += 1

    def popleft(self) -> KVCacheBlock:
        if not self.num_free_blocks:
            raise ValueError("no block is free")
        while self._front not in self._at:
            self._front += 1
        block = self._at[self._front]
        self.remove(block)
        return block

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        if num_blocks > self.num_free_blocks:
            raise ValueError(f"{self.num_free_blocks} blocks are free, not {num_blocks}")
        return [self.popleft() for _ in range(num_blocks)]

    def remove(self, block: KVCacheBlock) -> None:
        place = self._place.pop(block.block_id, None)
        if place is None:
            raise ValueError(f"{block} is not free")
        del self._at[place]
        self.num_free_blocks -= 1

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in blocks:
            self._put(self._end, block)
            self._end += 1

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        new = list(blocks)
        self._front -= len(new)
        for place, block in enumerate(new, start=self._front):
            self._put(place, block)

    def block_ids(self) -> list[int]:
        return [self._at[place].block_id for place in range(self._front, self._end) if place in self._at]


# === one_ring
"""A ring with one block that is not real, which stands before the front and after the back; each block enters singly."""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import KVCacheBlock


class FreeKVCacheBlockQueue:
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._num = 0
        self._ring = KVCacheBlock(-1)
        self._ring.prev_free_block = self._ring.next_free_block = self._ring
        self.append_n(blocks)

    @property
    def num_free_blocks(self) -> int:
        return self._num

    def _insert(self, block: KVCacheBlock, before: KVCacheBlock) -> None:
        """Between `before` and whoever follows it."""
        after = before.next_free_block
        block.prev_free_block, block.next_free_block = before, after
        before.next_free_block = after.prev_free_block = block
        self._num += 1

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        if num_blocks > self._num:
            raise ValueError(f"{num_blocks} blocks are asked for, {self._num} are free")
        return [self.popleft() for _ in range(num_blocks)]

    def popleft(self) -> KVCacheBlock:
        if self._num == 0:
            raise ValueError("no block is free")
        block = self._ring.next_free_block
        self.remove(block)
        return block

    def remove(self, block: KVCacheBlock) -> None:
        if block.next_free_block is None:
            raise ValueError(f"{block} is not free")
        block.prev_free_block.next_free_block = block.next_free_block
        block.next_free_block.prev_free_block = block.prev_free_block
        block.prev_free_block = block.next_free_block = None
        self._num -= 1

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in blocks:
            self._insert(block, self._ring.prev_free_block)

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        before = self._ring
        for block in blocks:
            self._insert(block, before)
            before = block

    def block_ids(self) -> list[int]:
        ids, block = [], self._ring.next_free_block
        while block is not self._ring:
            ids.append(block.block_id)
            block = block.next_free_block
        return ids


# === ordered_dict
"""An OrderedDict from the number of a block to the block: it is a linked list with an index; the links are not used."""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import KVCacheBlock


class FreeKVCacheBlockQueue:
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._order = OrderedDict()
        self.append_n(blocks)

    @property
    def num_free_blocks(self) -> int:
        return len(self._order)

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        if num_blocks > len(self._order):
            raise ValueError("too few blocks are free")
        return [self._order.popitem(last=False)[1] for _ in range(num_blocks)]

    def popleft(self) -> KVCacheBlock:
        return self.popleft_n(1)[0]

    def remove(self, block: KVCacheBlock) -> None:
        if block.block_id not in self._order:
            raise ValueError(f"{block} is not free")
        del self._order[block.block_id]

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in blocks:
            self._order[block.block_id] = block

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in reversed(list(blocks)):
            self._order[block.block_id] = block
            self._order.move_to_end(block.block_id, last=False)

    def block_ids(self) -> list[int]:
        return list(self._order)


# === tickets
"""A deque of (ticket, block): a removal only tears up the ticket, and taking passes over torn ones, which pays for each once."""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import KVCacheBlock


class FreeKVCacheBlockQueue:
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._queue: deque[tuple[int, KVCacheBlock]] = deque()
        self._valid: dict[int, int] = {}
        self._next_ticket = 0
        self.append_n(blocks)

    @property
    def num_free_blocks(self) -> int:
        return len(self._valid)

    def _ticket(self, block: KVCacheBlock) -> tuple[int, KVCacheBlock]:
        self._next_ticket += 1
        self._valid[block.block_id] = self._next_ticket
        return self._next_ticket, block

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        if num_blocks > len(self._valid):
            raise ValueError(f"{num_blocks} blocks are asked for, {len(self._valid)} are free")
        taken: list[KVCacheBlock] = []
        while len(taken) < num_blocks:
            ticket, block = self._queue.popleft()
            if self._valid.get(block.block_id) == ticket:
                del self._valid[block.block_id]
                taken.append(block)
        return taken

    def popleft(self) -> KVCacheBlock:
        return self.popleft_n(1)[0]

    def remove(self, block: KVCacheBlock) -> None:
        if block.block_id not in self._valid:
            raise ValueError(f"{block} is not free")
        del self._valid[block.block_id]

    def append_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        self._queue.extend([self._ticket(block) for block in blocks])

    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:
        self._queue.extendleft(reversed([self._ticket(block) for block in blocks]))

    def block_ids(self) -> list[int]:
        return [block.block_id for ticket, block in self._queue if self._valid.get(block.block_id) == ticket]
