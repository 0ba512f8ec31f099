"""Holes begin as the whole memory, and each stretch is cut out of one, in any order; blocks are counted with divmod."""

from collections.abc import Sequence

from mini_vllm.observe.waste import ContiguousMemory as ReferenceContiguousMemory
from mini_vllm.observe.waste import Job, KVMemory, Usage
from mini_vllm.observe.waste import PagedMemory as ReferencePagedMemory


class ContiguousMemory(ReferenceContiguousMemory):
    def holes(self) -> list[range]:
        left = [range(self.num_slots)]
        for stretch in self.stretches.values():
            for i, hole in enumerate(left):
                if stretch.start in hole:
                    left[i : i + 1] = [range(hole.start, stretch.start), range(stretch.stop, hole.stop)]
                    break
        return list(filter(len, left))

    def allocate(self, request_id: int, num_tokens: int) -> bool:
        if (stretch := self.stretches.get(request_id)) is not None:
            return len(stretch) >= num_tokens
        hole = next((hole for hole in self.holes() if len(hole) >= num_tokens), None)
        if hole is None:
            return False
        self.stretches[request_id] = hole[:num_tokens]
        return True


class PagedMemory(ReferencePagedMemory):
    def allocate(self, request_id: int, num_tokens: int) -> bool:
        blocks, rest = divmod(num_tokens, self.block_size)
        needed = blocks + bool(rest)
        others = sum(count for holder, count in self.num_blocks.items() if holder != request_id)
        held = self.num_blocks.get(request_id, 0)
        if needed <= held:
            return True
        if (others + needed) * self.block_size > self.num_slots:
            return False
        self.num_blocks[request_id] = needed
        return True


def usage_of(memory: KVMemory, jobs: Sequence[Job], written: dict[int, int], refused: int | None) -> Usage:
    held = {each: memory.num_held(each) for each in written}
    used = sum(written.values())
    wasted = sum(max(0, held[each] - jobs[each].num_tokens) for each in written)
    reserved = sum(held.values()) - used - wasted
    nobodys = memory.num_slots - sum(held.values())
    if refused is not None and refused <= nobodys:
        return Usage(used, reserved, wasted, stranded=nobodys, free=0)
    return Usage(used, reserved, wasted, stranded=0, free=nobodys)
