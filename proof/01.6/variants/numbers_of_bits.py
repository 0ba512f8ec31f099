"""The memory is one whole number, a bit for each slot that is held; a hole is a run of zeros in it."""

from collections.abc import Sequence

from mini_vllm.observe.waste import ContiguousMemory as ReferenceContiguousMemory
from mini_vllm.observe.waste import Job, KVMemory, Usage
from mini_vllm.observe.waste import PagedMemory as ReferencePagedMemory


class ContiguousMemory(ReferenceContiguousMemory):
    def holes(self) -> list[range]:
        bits = (1 << self.num_slots) - 1  # a 1 for a slot that nobody holds
        for stretch in self.stretches.values():
            bits &= ~((1 << stretch.stop) - (1 << stretch.start))
        found = []
        while bits:
            start = (bits & -bits).bit_length() - 1
            length = (~(bits >> start) & ((bits >> start) + 1)).bit_length() - 1
            found.append(range(start, start + length))
            bits &= ~((1 << (start + length)) - (1 << start))
        return found

    def allocate(self, request_id: int, num_tokens: int) -> bool:
        if request_id in self.stretches:
            return self.num_held(request_id) >= num_tokens
        starts = [hole.start for hole in self.holes() if len(hole) >= num_tokens]
        if starts:
            self.stretches[request_id] = range(starts[0], starts[0] + num_tokens)
        return bool(starts)


class PagedMemory(ReferencePagedMemory):
    def allocate(self, request_id: int, num_tokens: int) -> bool:
        after = {
            **self.num_blocks,
            request_id: max(self.num_blocks.get(request_id, 0), 1 + (num_tokens - 1) // self.block_size),
        }
        fits = sum(after.values()) * self.block_size <= self.num_slots
        if fits:
            self.num_blocks.update(after)
        return fits


def usage_of(memory: KVMemory, jobs: Sequence[Job], written: dict[int, int], refused: int | None) -> Usage:
    rows = [(tokens, memory.num_held(each), jobs[each].num_tokens) for each, tokens in written.items()]
    used = sum(tokens for tokens, _, _ in rows)
    wasted = sum(max(held - length, 0) for _, held, length in rows)
    held = sum(held for _, held, _ in rows)
    left = memory.num_slots - held
    stranded = left if refused is not None and left >= refused else 0
    return Usage(used, held - used - wasted, wasted, stranded, left - stranded)
