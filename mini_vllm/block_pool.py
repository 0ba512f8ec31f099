"""Blocks of KV cache: which are free, in what order they are reused, and which content can be found
again.

The pool owns every block. A block is in exactly one place: it is the null block, or it is held by
ref_cnt > 0 block tables, or it waits in the free queue. A free block keeps its hash, hence its
content, until a request takes it: the free queue is the prefix cache's eviction order. Called by
the KV cache manager only. Source: vllm/v1/core/block_pool.py and FreeKVCacheBlockQueue in
vllm/v1/core/kv_cache_utils.py.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Optional


class KVCacheBlock:
    """One block: block_size slots in every layer's K and V. The links belong to the free queue."""

    __slots__ = ("block_hash", "block_id", "next_free_block", "prev_free_block", "ref_cnt")

    def __init__(self, block_id: int) -> None:
        self.block_id = block_id
        self.ref_cnt = 0
        self.block_hash: Hashable | None = None  # set while the prefix cache can find the block
        self.prev_free_block: Optional[KVCacheBlock] = None  # noqa: UP045 (the class is not a type yet)
        self.next_free_block: Optional[KVCacheBlock] = None  # noqa: UP045

    def __repr__(self) -> str:
        return (
            f"KVCacheBlock({self.block_id}, ref_cnt={self.ref_cnt}, "
            f"cached={self.block_hash is not None})"
        )


class FreeKVCacheBlockQueue:
    """Free blocks, next to be taken first.

    BlockPool.free_blocks decides the order, and not the queue.
    """

    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self.num_free_blocks = 0
        self._head = KVCacheBlock(-1)
        self._tail = KVCacheBlock(-1)
        # A doubly linked list and no deque: a prefix hit takes a block out of the middle, which
        # here is O(1) as for the ends, and no object is allocated, since the links live in the
        # blocks. Two sentinels stand at the ends, so no operation has a special case.
        self._head.next_free_block = self._tail
        self._tail.prev_free_block = self._head
        self.append_n(blocks)

    def popleft_n(self, num_blocks: int) -> list[KVCacheBlock]:
        """Take the first num_blocks blocks.

        Raises ValueError, and takes none, if there are fewer.
        """
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
        """Take the first block. Raises ValueError if there is none."""
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

    def block_ids(self) -> list[int]:
        """The ids in the order in which they would be taken."""
        ids = []
        block = self._head.next_free_block
        while block is not None and block is not self._tail:
            ids.append(block.block_id)
            block = block.next_free_block
        return ids


class BlockPool:
    """Owns num_blocks blocks.

    Block 0 is the null block: a padding address that is never handed out.
    """

    def __init__(self, num_blocks: int) -> None:
        self.blocks = [KVCacheBlock(block_id) for block_id in range(num_blocks)]
        self.free_queue = FreeKVCacheBlockQueue(self.blocks)
        self.null_block = self.free_queue.popleft()
        # Blocks of equal content may coexist (two requests computed it at once); the one cached
        # first answers.
        self._cached: dict[Hashable, dict[int, KVCacheBlock]] = {}

    @property
    def num_free_blocks(self) -> int:
        return self.free_queue.num_free_blocks

    @property
    def num_cached_hashes(self) -> int:
        return len(self._cached)

    def get_cached_block(self, block_hash: Hashable) -> KVCacheBlock | None:
        same = self._cached.get(block_hash)
        return next(iter(same.values())) if same else None

    def cache_block(self, block: KVCacheBlock, block_hash: Hashable) -> None:
        """Let lookups find the block under its hash from now on."""
        assert block.block_hash is None, f"{block} is cached already"
        block.block_hash = block_hash
        self._cached.setdefault(block_hash, {})[block.block_id] = block

    def uncache_block(self, block: KVCacheBlock) -> None:
        """Forget what the block holds; its duplicates stay. No-op for a block without a hash."""
        if block.block_hash is None:
            return
        same = self._cached[block.block_hash]
        del same[block.block_id]
        if not same:
            del self._cached[block.block_hash]
        block.block_hash = None

    def uncache_hash(self, block_hash: Hashable) -> None:
        """Forget every block of this content."""
        for block in self._cached.pop(block_hash, {}).values():
            block.block_hash = None

    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        """Take fresh blocks from the front of the queue; what they held is evicted from the prefix
        cache.
        """
        taken = self.free_queue.popleft_n(num_blocks)
        for block in taken:
            self.uncache_block(block)
            block.ref_cnt = 1
        return taken

    def touch(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Hold cached blocks once more; one that no request held leaves the free queue."""
        for block in blocks:
            if block.ref_cnt == 0:
                self.free_queue.remove(block)
            block.ref_cnt += 1

    def free_blocks(self, table: Sequence[KVCacheBlock]) -> None:
        """Let go of a block table, given in the table's order.

        A block without a hash cannot be found: it goes to the front of the queue. A cached one goes
        to the back, the table's tail before its head: a prefix is evicted after what was built on
        it.
        """
        useless: list[KVCacheBlock] = []
        cached: list[KVCacheBlock] = []
        for block in reversed(table):
            assert block.ref_cnt > 0, f"{block} is freed more often than it is held"
            block.ref_cnt -= 1
            if block.ref_cnt == 0:
                (useless if block.block_hash is None else cached).append(block)
        self.free_queue.prepend_n(useless)
        self.free_queue.append_n(cached)

    def check_integrity(self) -> None:
        """Raises AssertionError if a block is not in exactly one place, or if a name does not lead
        to its block.

        For tests, and for you: call it between two steps when you have changed something. O(number
        of blocks).
        """
        free = self.free_queue.block_ids()
        not_held = {block.block_id for block in self.blocks if block.ref_cnt == 0} - {
            self.null_block.block_id
        }
        assert (len(free), {*free}) == (self.num_free_blocks, not_held), (
            f"free: {free}, not held: {not_held}"
        )
        named = {(name, block_id) for name, same in self._cached.items() for block_id in same}
        hashed = {
            (block.block_hash, block.block_id)
            for block in self.blocks
            if block.block_hash is not None
        }
        assert named == hashed, (
            f"{named ^ hashed} are names without a block, or blocks without a name"
        )
