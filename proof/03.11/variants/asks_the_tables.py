"""Who holds a block is read from the tables, and not from its count; a promise is a copy's way by the new block."""

from collections.abc import Sequence

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.policies.v0.fork import ForkingKVCacheManager as ReferenceForkingKVCacheManager
from mini_vllm.request import Request


class ForkingKVCacheManager(ReferenceForkingKVCacheManager):
    """What is not defined here is the reference's."""

    def fork(self, parent: Request, child: Request) -> None:
        if parent.request_id in self._tables:
            self._tables[child.request_id] = [*self._tables[parent.request_id]]
            for block in self._tables[child.request_id]:
                block.ref_cnt += 1
        child.block_hashes = []  # they are made again from the tokens

    def _held_by_others(self, request: Request, block: KVCacheBlock) -> bool:
        tables = [table for name, table in self._tables.items() if name != request.request_id]
        return any(block is other for table in tables for other in table)

    def _to_replace(self, request: Request, num_tokens: int) -> dict[int, KVCacheBlock]:
        table = self._tables.get(request.request_id, [])
        first, last = request.num_computed_tokens // self.block_size, (num_tokens - 1) // self.block_size
        return {
            i: table[i] for i in range(first, last + 1) if i < len(table) and self._held_by_others(request, table[i])
        }

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        in_all = -(-num_tokens // self.block_size)
        there = len(self._tables.get(request.request_id, [])) + len(computed_blocks)
        hits_to_take = len([block for block in computed_blocks if not block.ref_cnt])
        return len(self._to_replace(request, num_tokens)) + hits_to_take + max(0, in_all - there)

    def num_blocks_to_append(self, requests: Sequence[Request]) -> int:
        total, in_place = 0, set()
        for request in requests:
            last = self._tables[request.request_id][-1]
            if request.num_computed_tokens % self.block_size == 0 or last.block_id in in_place:
                total += 1
            else:
                in_place.add(last.block_id)
        return total

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        end = request.num_computed_tokens + len(computed_blocks) * self.block_size + num_new_tokens
        if self.num_blocks_needed(request, end, computed_blocks) > self.num_free_blocks:
            return None
        copies = []
        for i, block in self._to_replace(request, end).items():
            (own,) = self.block_pool.get_new_blocks(1)
            self._copies.append((block.block_id, own.block_id))
            self.block_pool.free_blocks([block])
            self._tables[request.request_id][i] = own
            copies.append(own)
        return copies + super().allocate_slots(request, num_new_tokens, computed_blocks)

    def take_copies(self):
        return [self._copies.pop(0) for _ in range(len(self._copies))]
