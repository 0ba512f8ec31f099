# === a_stack_of_freed_blocks
"""To free, blocks are stacked from the head and the stack is taken down; to take, the front is removed block by block."""

from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import BlockPool as ReferenceBlockPool
from mini_vllm.block_pool import KVCacheBlock


class BlockPool(ReferenceBlockPool):
    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        if self.free_queue.num_free_blocks < num_blocks:
            raise ValueError(f"only {self.num_free_blocks} blocks are free")
        taken: list[KVCacheBlock] = []
        while len(taken) < num_blocks:
            taken.extend(self.free_queue.popleft_n(1))
            taken[-1].ref_cnt = 1
            if taken[-1].block_hash is not None:
                self.uncache_block(taken[-1])
        return taken

    def touch(self, blocks: Iterable[KVCacheBlock]) -> None:
        walk = iter(blocks)
        while (block := next(walk, None)) is not None:
            if block.ref_cnt:
                block.ref_cnt += 1
            else:
                self.free_queue.remove(block)
                block.ref_cnt = 1

    def free_blocks(self, table: Sequence[KVCacheBlock]) -> None:
        stacks: dict[bool, list[KVCacheBlock]] = {True: [], False: []}
        for block in table:
            if block.ref_cnt <= 0:
                raise AssertionError(block)
            block.ref_cnt -= 1
            if not block.ref_cnt:
                stacks[block.block_hash is None].append(block)
        while stacks[False]:
            self.free_queue.append_n([stacks[False].pop()])
        stacks[True].reverse()
        self.free_queue.prepend_n(stacks[True])


# === counts_first_then_moves
"""Each method first changes all counts, then moves those that crossed between nothing and one, as sets of numbers."""

from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import BlockPool as ReferenceBlockPool
from mini_vllm.block_pool import KVCacheBlock


class BlockPool(ReferenceBlockPool):
    def _count(self, blocks: Sequence[KVCacheBlock], step: int) -> set[int]:
        """The ids of the blocks that nobody holds, before or after the step."""
        idle = {block.block_id for block in blocks if block.ref_cnt == (0 if step > 0 else 1)}
        for block in blocks:
            block.ref_cnt += step
        return idle

    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        fresh = self.free_queue.popleft_n(num_blocks)
        self._count(fresh, 1)
        for block in reversed(fresh):
            self.uncache_block(block)
        return fresh

    def touch(self, blocks: Iterable[KVCacheBlock]) -> None:
        hits = tuple(blocks)
        idle = self._count(hits, 1)
        for block in hits:
            if block.block_id in idle:
                self.free_queue.remove(block)

    def free_blocks(self, table: Sequence[KVCacheBlock]) -> None:
        assert all(block.ref_cnt for block in table)
        idle = self._count(table, -1)
        tail_first = [self.blocks[block.block_id] for block in table[::-1] if block.block_id in idle]
        self.free_queue.append_n(block for block in tail_first if block.block_hash is not None)
        self.free_queue.prepend_n(block for block in tail_first if block.block_hash is None)


# === looked_up_and_removed
"""Fresh blocks are chosen from a view of the queue and removed one by one; freed ones are gathered from the left."""

from collections import deque
from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import BlockPool as ReferenceBlockPool
from mini_vllm.block_pool import KVCacheBlock


class BlockPool(ReferenceBlockPool):
    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        chosen = self.free_queue.block_ids()[:num_blocks]
        if len(chosen) < num_blocks:
            raise ValueError
        blocks = [self.blocks[block_id] for block_id in chosen]
        self.touch(blocks)
        for block in blocks:
            self.uncache_block(block)
        return blocks

    def touch(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in blocks:
            held, block.ref_cnt = block.ref_cnt, block.ref_cnt + 1
            if not held:
                self.free_queue.remove(block)

    def free_blocks(self, table: Sequence[KVCacheBlock]) -> None:
        front: deque[KVCacheBlock] = deque()
        back: deque[KVCacheBlock] = deque()
        for block in table:
            if block.ref_cnt == 0:
                raise AssertionError(f"nobody holds {block}")
            block.ref_cnt -= 1
            if block.ref_cnt == 0:
                (front if block.block_hash is None else back).appendleft(block)
        self.free_queue.append_n(back)
        self.free_queue.prepend_n(front)


# === one_block_at_a_time
"""A helper for one block in each direction: the number is checked first, then every block is moved by itself."""

from collections import deque
from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import BlockPool as ReferenceBlockPool
from mini_vllm.block_pool import KVCacheBlock


class BlockPool(ReferenceBlockPool):
    def _take_one(self) -> KVCacheBlock:
        block = self.free_queue.popleft()
        self.uncache_block(block)
        block.ref_cnt += 1
        return block

    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        if num_blocks > self.num_free_blocks:
            raise ValueError(f"{num_blocks} blocks are asked for, {self.num_free_blocks} are free")
        return [self._take_one() for _ in range(num_blocks)]

    def touch(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in blocks:
            block.ref_cnt += 1
            if block.ref_cnt == 1:
                self.free_queue.remove(block)

    def free_blocks(self, table: Sequence[KVCacheBlock]) -> None:
        for block in table:
            assert block.ref_cnt >= 1
            block.ref_cnt -= 1
            if block.ref_cnt == 0 and block.block_hash is None:
                self.free_queue.prepend_n([block])  # head first to the front: the tail ends up before it
        for block in table[::-1]:
            if block.ref_cnt == 0 and block.block_hash is not None:
                self.free_queue.append_n([block])


# === sorted_by_kind
"""All checks come first; one stable sort puts useless blocks before cached ones, and a cut shares them out."""

from collections import deque
from collections.abc import Iterable, Sequence

from mini_vllm.block_pool import BlockPool as ReferenceBlockPool
from mini_vllm.block_pool import KVCacheBlock


class BlockPool(ReferenceBlockPool):
    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        fresh = self.free_queue.popleft_n(num_blocks)
        for block in fresh:
            if block.block_hash is not None:
                self.uncache_block(block)
            block.ref_cnt = 1
        return fresh

    def touch(self, blocks: Iterable[KVCacheBlock]) -> None:
        hit = list(blocks)
        for block in [block for block in hit if not block.ref_cnt]:
            self.free_queue.remove(block)
        for block in hit:
            block.ref_cnt += 1

    def free_blocks(self, table: Sequence[KVCacheBlock]) -> None:
        if any(block.ref_cnt < 1 for block in table):
            raise AssertionError("a block is freed more often than it is held")
        for block in table:
            block.ref_cnt -= 1
        freed = [block for block in table[::-1] if block.ref_cnt == 0]
        freed.sort(key=lambda block: block.block_hash is not None)
        num_useless = sum(block.block_hash is None for block in freed)
        self.free_queue.prepend_n(freed[:num_useless])
        self.free_queue.append_n(freed[num_useless:])
