"""Cuts a row of holders into runs with groupby; blocks are taken from a list of those that are left, one at a time."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain, groupby

from mini_vllm.observe.waste import ContiguousMemory as ReferenceContiguousMemory
from mini_vllm.observe.waste import Job, KVMemory, Usage
from mini_vllm.observe.waste import PagedMemory as ReferencePagedMemory


class ContiguousMemory(ReferenceContiguousMemory):
    def holes(self) -> list[range]:
        taken = set(chain.from_iterable(self.stretches.values()))
        runs = groupby(range(self.num_slots), key=taken.__contains__)
        free = [list(run) for is_taken, run in runs if not is_taken]
        return [range(run[0], run[-1] + 1) for run in free]

    def allocate(self, request_id: int, num_tokens: int) -> bool:
        mine = self.stretches.get(request_id)
        if mine is None:
            mine = next((hole[:num_tokens] for hole in self.holes() if len(hole) >= num_tokens), range(0))
            self.stretches.update({request_id: mine} if mine else {})
        return num_tokens <= len(mine)


class PagedMemory(ReferencePagedMemory):
    def allocate(self, request_id: int, num_tokens: int) -> bool:
        left = self.num_slots // self.block_size - Counter(self.num_blocks).total()
        lacked = len(range(self.num_held(request_id), num_tokens, self.block_size))
        if lacked > left:
            return False
        if lacked:
            self.num_blocks[request_id] = self.num_blocks.get(request_id, 0) + lacked
        return True


def usage_of(memory: KVMemory, jobs: Sequence[Job], written: dict[int, int], refused: int | None) -> Usage:
    kinds: Counter[str] = Counter()
    for each, tokens in written.items():
        edges = sorted((memory.num_held(each), jobs[each].num_tokens))
        will_be = min(edges[0], memory.num_held(each))
        kinds.update(used=tokens, reserved=will_be - tokens, wasted=memory.num_held(each) - will_be)
    left = memory.num_slots - kinds.total()
    kinds["stranded" if refused is not None and refused <= left else "free"] = left
    return Usage(*(kinds[name] for name in Usage._fields))
