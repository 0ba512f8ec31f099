"""Slot by slot: a row of who holds what is made afresh each time, holes and free blocks are counted on it."""

from collections.abc import Sequence

from mini_vllm.observe.waste import ContiguousMemory as ReferenceContiguousMemory
from mini_vllm.observe.waste import Job, KVMemory, Usage
from mini_vllm.observe.waste import PagedMemory as ReferencePagedMemory


class ContiguousMemory(ReferenceContiguousMemory):
    def row(self) -> list[bool]:
        held = [False] * self.num_slots
        for stretch in self.stretches.values():
            for slot in stretch:
                held[slot] = True
        return held

    def holes(self) -> list[range]:
        found = []
        length = 0
        for slot, is_held in enumerate([*self.row(), True]):
            if not is_held:
                length += 1
            elif length:
                found.append(range(slot - length, slot))
                length = 0
        return found

    def allocate(self, request_id: int, num_tokens: int) -> bool:
        if request_id in self.stretches:
            return self.num_held(request_id) >= num_tokens
        length = 0
        for slot, is_held in enumerate(self.row()):
            length = 0 if is_held else length + 1
            if length == num_tokens:
                self.stretches[request_id] = range(slot + 1 - num_tokens, slot + 1)
                return True
        return False


class PagedMemory(ReferencePagedMemory):
    def allocate(self, request_id: int, num_tokens: int) -> bool:
        blocks = [holder for holder, count in self.num_blocks.items() for _ in range(count)]
        blocks += [None] * (self.num_slots // self.block_size - len(blocks))
        while blocks.count(request_id) * self.block_size < num_tokens:
            if None not in blocks:
                return False
            blocks[blocks.index(None)] = request_id
        self.num_blocks[request_id] = blocks.count(request_id)
        return True


def usage_of(memory: KVMemory, jobs: Sequence[Job], written: dict[int, int], refused: int | None) -> Usage:
    counts = {"used": 0, "reserved": 0, "wasted": 0, "stranded": 0, "free": 0}
    for request_id in written:
        for number in range(memory.num_held(request_id)):
            if number < written[request_id]:
                counts["used"] += 1
            elif number < jobs[request_id].num_tokens:
                counts["reserved"] += 1
            else:
                counts["wasted"] += 1
    left = memory.num_slots - sum(counts.values())
    counts["free" if refused is None or refused > left else "stranded"] = left
    return Usage(**counts)
