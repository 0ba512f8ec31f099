"""Edges, sorted: a hole lies between the end of one stretch and the start of the next; blocks are lacked one by one."""

import math
from collections.abc import Sequence
from itertools import starmap

from mini_vllm.observe.waste import ContiguousMemory as ReferenceContiguousMemory
from mini_vllm.observe.waste import Job, KVMemory, Usage
from mini_vllm.observe.waste import PagedMemory as ReferencePagedMemory


class ContiguousMemory(ReferenceContiguousMemory):
    def holes(self) -> list[range]:
        starts = sorted(stretch.start for stretch in self.stretches.values()) + [self.num_slots]
        stops = [0] + sorted(stretch.stop for stretch in self.stretches.values())
        return [hole for hole in starmap(range, zip(stops, starts)) if len(hole) > 0]

    def allocate(self, request_id: int, num_tokens: int) -> bool:
        if request_id not in self.stretches:
            fitting = [hole.start for hole in self.holes() if len(hole) >= num_tokens]
            if not fitting:
                return False
            self.stretches[request_id] = range(min(fitting), min(fitting) + num_tokens)
        return len(self.stretches[request_id]) >= num_tokens


class PagedMemory(ReferencePagedMemory):
    def allocate(self, request_id: int, num_tokens: int) -> bool:
        lacked = max(0, math.ceil((num_tokens - self.num_held(request_id)) / self.block_size))
        if lacked + sum(self.num_blocks.values()) > self.num_slots // self.block_size:
            return False
        self.num_blocks[request_id] = self.num_blocks.get(request_id, 0) + lacked
        return True


def usage_of(memory: KVMemory, jobs: Sequence[Job], written: dict[int, int], refused: int | None) -> Usage:
    usage = Usage(0, 0, 0, 0, memory.num_slots)
    for request_id, num_written in written.items():
        to_come = jobs[request_id].num_tokens - num_written
        empty = memory.num_held(request_id) - num_written
        usage = Usage(
            used=usage.used + num_written,
            reserved=usage.reserved + min(empty, to_come),
            wasted=usage.wasted + max(empty - to_come, 0),
            stranded=0,
            free=usage.free - num_written - empty,
        )
    if refused is None or refused > usage.free:
        return usage
    return usage._replace(stranded=usage.free, free=0)
