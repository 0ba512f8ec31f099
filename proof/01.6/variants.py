# === bitmap
"""Slot by slot: a row of who holds what is made afresh each time, holes and free blocks are counted on it."""

from collections.abc import Sequence

from labkit.waste import ContiguousMemory as ReferenceContiguousMemory
from labkit.waste import Job, KVMemory, Usage
from labkit.waste import PagedMemory as ReferencePagedMemory


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


# === cut_out_of_the_whole
"""Holes begin as the whole memory, and each stretch is cut out of one, in any order; blocks are counted with divmod."""

from collections.abc import Sequence

from labkit.waste import ContiguousMemory as ReferenceContiguousMemory
from labkit.waste import Job, KVMemory, Usage
from labkit.waste import PagedMemory as ReferencePagedMemory


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


# === numbers_of_bits
"""The memory is one whole number, a bit for each slot that is held; a hole is a run of zeros in it."""

from collections.abc import Sequence

from labkit.waste import ContiguousMemory as ReferenceContiguousMemory
from labkit.waste import Job, KVMemory, Usage
from labkit.waste import PagedMemory as ReferencePagedMemory


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


# === pairs_of_edges
"""Edges, sorted: a hole lies between the end of one stretch and the start of the next; blocks are lacked one by one."""

import math
from collections.abc import Sequence
from itertools import starmap

from labkit.waste import ContiguousMemory as ReferenceContiguousMemory
from labkit.waste import Job, KVMemory, Usage
from labkit.waste import PagedMemory as ReferencePagedMemory


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


# === runs_of_equal_slots
"""Cuts a row of holders into runs with groupby; blocks are taken from a list of those that are left, one at a time."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain, groupby

from labkit.waste import ContiguousMemory as ReferenceContiguousMemory
from labkit.waste import Job, KVMemory, Usage
from labkit.waste import PagedMemory as ReferencePagedMemory


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
