"""All blocks are taken in one go, those for the end of the table first; a new table takes the place of the old one.

It calls nothing of the manager that it extends, and leaves out copies of blocks in which nothing is computed.
"""

from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.policies.v0.fork import ForkingKVCacheManager as ReferenceForkingKVCacheManager
from mini_vllm.request import Request


class ForkingKVCacheManager(ReferenceForkingKVCacheManager):
    """What is not defined here is the reference's."""

    def fork(self, parent: Request, child: Request) -> None:
        table = self._tables.get(parent.request_id)
        child.block_hashes = [*parent.block_hashes]
        if table is not None:
            self._tables[child.request_id] = [*table]
            self.block_pool.touch(table)

    def _plan(self, request: Request, num_tokens: int, hits: Sequence[KVCacheBlock]) -> tuple[set[int], int]:
        """Which places of the table are replaced, and how many are added."""
        table = self._tables.get(request.request_id, [])
        num_blocks = (num_tokens + self.block_size - 1) // self.block_size
        replaced = {
            i
            for i, block in enumerate(table[:num_blocks])
            if block.ref_cnt > 1 and (i + 1) * self.block_size > request.num_computed_tokens
        }
        return replaced, max(num_blocks - len(table) - len(hits), 0)

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        replaced, num_added = self._plan(request, num_tokens, computed_blocks)
        return len(replaced) + num_added + len([block for block in computed_blocks if block.ref_cnt == 0])

    def num_blocks_to_append(self, requests: Sequence[Request]) -> int:
        size = self.block_size
        families: dict[object, int] = {}
        for request in requests:
            if request.num_computed_tokens % size:
                last = self._tables[request.request_id][request.num_computed_tokens // size]
                families[last.block_id] = families.get(last.block_id, 0) + 1
        num_full = sum(request.num_computed_tokens % size == 0 for request in requests)
        return num_full + sum(number - 1 for number in families.values())

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        size = self.block_size
        start = request.num_computed_tokens + len(computed_blocks) * size
        end = start + num_new_tokens
        replaced, num_added = self._plan(request, end, computed_blocks)
        if self.num_blocks_needed(request, end, computed_blocks) > self.num_free_blocks:
            return None
        self.block_pool.touch(computed_blocks)
        new = self.block_pool.get_new_blocks(num_added + len(replaced))
        added, copies = new[:num_added], new[num_added:]
        table = []
        for i, block in enumerate(self._tables.get(request.request_id, [])):
            if i in replaced:
                table.append(copies.pop())
                self.block_pool.free_blocks([block])
                if i * size < request.num_computed_tokens:
                    self._copies.insert(0, (block.block_id, table[-1].block_id))
            else:
                table.append(block)
        table += [*computed_blocks, *added]
        if table:
            self._tables[request.request_id] = table
        if self.enable_prefix_caching:
            self._cache_blocks(request, start // size, end // size)
        return new

    def take_copies(self) -> list[tuple[int, int]]:
        result = []
        while self._copies:
            result.append(self._copies.pop())
        return result
