"""How much of the KV memory holds tokens: one contiguous stretch a request, as before paging, against blocks.

    the slots of a request = used (K and V of a token) + reserved (tokens still to come) + wasted (never written)
    all slots              = those of the requests + stranded (enough for the next request, in pieces too small) + free

The reference of lab 01.6, and a measurement beside the engine, which only pages. Source: Kwon et al. 2023
(PagedAttention), section 3.1 and figure 2: in the systems measured there, 20.4 to 38.2 % of the KV memory held tokens.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol


class Job(NamedTuple):
    """A request as memory sees it; lengths are in tokens. Its output_len is not known before it has ended."""

    prompt_len: int
    output_len: int

    @property
    def num_tokens(self) -> int:
        return self.prompt_len + self.output_len


class Usage(NamedTuple):
    """Slots at one moment, by what they are good for. Together they are all slots."""

    used: int
    reserved: int
    wasted: int  # internal fragmentation
    stranded: int  # external fragmentation
    free: int


class KVMemory(Protocol):
    """Room for the tokens of requests. It knows what each one holds, and its caller how many tokens are written."""

    num_slots: int

    def allocate(self, request_id: int, num_tokens: int) -> bool:
        """Make room for the first num_tokens >= 1 tokens of a request; False, and nothing changes, if there is none."""

    def free(self, request_id: int) -> None:
        """Take back what a request holds. Raises KeyError for one that holds nothing."""

    def num_held(self, request_id: int) -> int:
        """Slots that a request holds, 0 for a stranger."""


class ContiguousMemory:
    """Each request holds one stretch of slots, which can neither grow nor move: stretches[request_id]."""

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self.stretches: dict[int, range] = {}

    def holes(self) -> list[range]:
        """The free stretches, by address. Each is as long as can be, so two never touch, and none is empty."""
        found, start = [], 0
        for stretch in sorted(self.stretches.values(), key=lambda stretch: stretch.start):
            found.append(range(start, stretch.start))
            start = stretch.stop
        return [hole for hole in (*found, range(start, self.num_slots)) if hole]

    def allocate(self, request_id: int, num_tokens: int) -> bool:
        """Make room for the first num_tokens tokens of a request; False, and nothing changes, if there is none.

        A new request gets the front of the first hole that is long enough (first fit). A request that holds a stretch
        keeps it: it is long enough, or there is no room.
        """
        if request_id in self.stretches:
            return num_tokens <= len(self.stretches[request_id])
        for hole in self.holes():
            if len(hole) >= num_tokens:
                self.stretches[request_id] = range(hole.start, hole.start + num_tokens)
                return True
        return False

    def free(self, request_id: int) -> None:
        """Take back the stretch of a request. Raises KeyError for one that holds nothing."""
        del self.stretches[request_id]

    def num_held(self, request_id: int) -> int:
        """Slots that a request holds, 0 for a stranger."""
        return len(self.stretches.get(request_id, ()))


class PagedMemory:
    """Each request holds whole blocks of block_size slots, anywhere: num_blocks[request_id] counts them."""

    def __init__(self, num_slots: int, block_size: int) -> None:
        self.num_slots = num_slots // block_size * block_size
        self.block_size = block_size
        self.num_blocks: dict[int, int] = {}

    def allocate(self, request_id: int, num_tokens: int) -> bool:
        """Make room for the first num_tokens tokens of a request; False, and nothing changes, if there is none.

        A request gets as many blocks more as it lacks, and never gives one back here.
        """
        held = self.num_blocks.get(request_id, 0)
        needed = -(-num_tokens // self.block_size)
        if (needed - held) * self.block_size > self.num_slots - sum(self.num_blocks.values()) * self.block_size:
            return False
        self.num_blocks[request_id] = max(held, needed)
        return True

    def free(self, request_id: int) -> None:
        """Take back the blocks of a request. Raises KeyError for one that holds nothing."""
        del self.num_blocks[request_id]

    def num_held(self, request_id: int) -> int:
        """Slots that a request holds, 0 for a stranger."""
        return self.num_blocks.get(request_id, 0) * self.block_size


def usage_of(memory: KVMemory, jobs: Sequence[Job], written: dict[int, int], refused: int | None) -> Usage:
    """What the slots are good for now.

    written: tokens written by each request that runs, by its index in jobs.
    refused: the tokens for which the next request was refused room, None if no request waits. The slots that no
    request holds are stranded if they would be enough for it, and free otherwise.
    """
    used = reserved = wasted = 0
    for request_id, num_written in written.items():
        held = memory.num_held(request_id)
        ever = min(held, jobs[request_id].num_tokens)  # of its slots, those that will have been written at the end
        used += num_written
        reserved += ever - num_written
        wasted += held - ever
    left = memory.num_slots - used - reserved - wasted
    is_stranded = refused is not None and refused <= left
    return Usage(used, reserved, wasted, left if is_stranded else 0, 0 if is_stranded else left)


def measure(memory: KVMemory, jobs: Sequence[Job], reserve: Callable[[Job], int]) -> list[Usage]:
    """Serve all jobs, first come, first served, one token a step for each that runs; the usage at each step.

    reserve(job): tokens for which a job must have room before it begins. Its prompt is written at once. If a job cannot
    grow, the youngest one gives everything back and waits in front. Raises ValueError for a job that no memory of
    this size can hold.
    """
    waiting = deque(range(len(jobs)))
    tokens = [job.prompt_len for job in jobs]
    running: list[int] = []  # the youngest last
    usages = []
    while waiting or running:
        refused = None
        while waiting and refused is None:
            needed = max(reserve(jobs[waiting[0]]), tokens[waiting[0]])
            if memory.allocate(waiting[0], needed):
                running.append(waiting.popleft())
            elif running:
                refused = needed
            else:
                raise ValueError(f"job {waiting[0]} needs {needed} slots, the memory has {memory.num_slots}")
        usages.append(usage_of(memory, jobs, {each: tokens[each] for each in running}, refused))
        step(memory, jobs, tokens, running, waiting)
    return usages


def step(memory: KVMemory, jobs: Sequence[Job], tokens: list[int], running: list[int], waiting: deque[int]) -> None:
    """Give each running job one token more, the oldest first. A job that has all of its tokens leaves."""
    for each in list(running):
        if each not in running:
            continue  # it gave way to an older one
        if tokens[each] == jobs[each].num_tokens:
            memory.free(each)
            running.remove(each)
            continue
        while not memory.allocate(each, tokens[each] + 1):
            if running == [each]:
                raise ValueError(f"job {each} needs {tokens[each] + 1} slots, the memory has {memory.num_slots}")
            waiting.appendleft(running.pop())
            memory.free(waiting[0])
            if waiting[0] == each:
                break
        else:
            tokens[each] += 1
