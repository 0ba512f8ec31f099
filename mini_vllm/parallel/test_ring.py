"""The ring as a state machine: one writer, three readers, which run in the midst of each other, and
a kill at any access to the memory.
"""

from collections.abc import Callable
from functools import partial
from itertools import count, product
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from mini_vllm.parallel.ring import LENGTH_BYTES, Ring

READERS, BYTES = 3, 4
processes = st.integers(0, READERS)  # the last one writes
LONGEST = 2 * READERS + 3 + LENGTH_BYTES + BYTES  # accesses of a write, which has most
accesses = st.integers(0, LONGEST - 1)
messages = st.binary(min_size=1, max_size=BYTES)


def kill() -> None:
    raise KilledError


class KilledError(BaseException):
    """A process has ended where it was."""


class Memory:
    """Shared memory, as one process sees it. Before each access it calls what runs meanwhile; a
    copy of several bytes is an access for each.
    """

    def __init__(self, shared: bytearray) -> None:
        self.shared = shared
        self.before: Callable[[], None] = lambda: None

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return bytes(self[i] for i in range(*place.indices(len(self.shared))))
        self.before()
        return self.shared[place]

    def __setitem__(self, place: Any, value: Any) -> None:
        if isinstance(place, slice):
            places = range(*place.indices(len(self.shared)))
            assert len(places) == len(value), "a buffer does not grow"
            for i, byte in zip(places, value, strict=True):
                self[i] = byte
            return
        self.before()
        self.shared[place] = value


class World:
    """The processes around one ring: READERS readers, and the writer as the last one."""

    def __init__(self, num_slots: int) -> None:
        self.num_slots, sizes = num_slots, {"num_slots": num_slots, "slot_bytes": BYTES}
        shared = bytearray(Ring.size_for(READERS, **sizes))
        self.memories = [Memory(shared) for _ in range(READERS + 1)]
        self.rings = [Ring(memory, READERS, **sizes) for memory in self.memories]
        self.written: list[bytes] = []  # whole, in order; the last one may not have returned yet
        self.read: list[list[bytes]] = [[] for _ in range(READERS)]
        self.is_killed = [False] * (READERS + 1)

    def write(self, message: bytes) -> None:
        if self.is_killed[-1]:
            return
        slowest, before = min(map(len, self.read)), len(self.written)
        self.written.append(message)
        try:
            if not self.rings[-1].try_write(message):
                self.written.pop()
                assert before - slowest >= self.num_slots, "there was room"
        except KilledError:
            self.is_killed[-1] = True

    def look(self, reader: int) -> None:
        if self.is_killed[reader]:
            return
        try:
            message = self.rings[reader].try_read(reader)
        except KilledError:
            self.is_killed[reader] = True
            return
        if message is not None:
            self.read[reader].append(message)

    def disturb(
        self, process: int, message: bytes, at: int | None, before: Callable[[], None]
    ) -> None:
        """Let a process run, and do what is to happen before its access number `at`."""
        if before is kill and any(self.is_killed):
            at = None
        numbers, memory = count(), self.memories[process]
        memory.before = lambda: before() if next(numbers) == at else None
        self.look(process) if process < READERS else self.write(message)
        memory.before = lambda: None

    def check(self) -> None:
        """What was written is read whole and in order, nothing twice, and nothing is lost to a
        reader that lives.
        """
        for reader, read in enumerate(self.read):
            assert read == self.written[: len(read)]
            if not self.is_killed[-1] and not self.is_killed[reader]:
                assert len(self.written) - len(read) <= self.num_slots


class RingMachine(RuleBasedStateMachine):
    @initialize(num_slots=st.integers(1, 2))
    def start(self, num_slots: int) -> None:
        self.world = World(num_slots)

    @rule(message=messages)
    def write(self, message: bytes) -> None:
        self.world.write(message)

    @rule(reader=st.integers(0, READERS - 1))
    def read(self, reader: int) -> None:
        self.world.look(reader)

    @rule(
        process=processes,
        other=processes,
        at=accesses,
        kill_at=st.none() | accesses,
        message=messages,
        inner=messages,
    )
    def another_process_runs_meanwhile(
        self,
        process: int,
        other: int,
        at: int,
        kill_at: int | None,
        message: bytes,
        inner: bytes,
    ) -> None:
        """`other` writes or reads between two accesses of `process`, and may be killed there."""
        if process != other:
            meanwhile = partial(self.world.disturb, other, inner, kill_at, kill)
            self.world.disturb(process, message, at, meanwhile)

    @rule(process=processes, at=accesses, message=messages)
    def a_process_is_killed(self, process: int, at: int, message: bytes) -> None:
        self.world.disturb(process, message, at, kill)

    @invariant()
    def each_reader_has_what_was_written(self) -> None:
        self.world.check()


RingMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestRing = RingMachine.TestCase


@pytest.mark.slow
def test_the_ring_with_many_more_interleavings() -> None:
    run_state_machine_as_test(
        RingMachine, settings=settings(max_examples=3_000, stateful_step_count=40, deadline=None)
    )


@pytest.mark.parametrize("has_read", [False, True])
@pytest.mark.parametrize("num_slots", [1, 2])
def test_a_write_in_the_midst_of_a_read_wherever_it_ends(num_slots: int, has_read: bool) -> None:
    """All places of the read, and all in the write at which the writer may be killed, when only
    this reader may still have to read the slot.
    """
    for at, kill_at in product(range(LONGEST), (None, *range(LONGEST))):
        world = World(num_slots)
        for _ in range(num_slots):
            world.write(b"old")
            for reader in range(not has_read and 1, READERS):
                world.look(reader)
        world.disturb(0, b"", at, partial(world.disturb, READERS, b"new", kill_at, kill))
        world.look(0)
        world.check()


def test_every_reader_gets_everything_over_many_laps() -> None:
    shared = bytearray(Ring.size_for(2))
    writer, *readers = (Ring(memoryview(shared), 2) for _ in range(3))
    for i in range(11):
        message = bytes([i]) * (i * 1000)
        assert writer.try_write(message)
        assert [ring.try_read(n) for n, ring in enumerate(readers)] == [message, message]
        assert readers[0].try_read(0) is None
