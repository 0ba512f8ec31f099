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
