"""Contiguous against paged memory: who gets room, and what the slots are good for."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.waste import ContiguousMemory, Job, PagedMemory, Usage, measure, usage_of

jobs_of = st.lists(st.builds(Job, st.integers(1, 20), st.integers(0, 20)), min_size=1, max_size=12)


def test_first_fit_and_holes_that_join() -> None:
    memory = ContiguousMemory(10)
    assert [memory.allocate(i, 3) for i in range(4)] == [True, True, True, False]
    memory.free(0)
    assert memory.holes() == [range(3), range(9, 10)]
    assert not memory.allocate(4, 4), "four slots are free, in two pieces"
    memory.free(1)
    assert memory.holes() == [range(6), range(9, 10)]
    assert memory.allocate(4, 4)
    assert memory.stretches[4] == range(4)


def test_a_stretch_cannot_grow_and_blocks_can() -> None:
    stretch, blocks = ContiguousMemory(8), PagedMemory(8, block_size=4)
    assert stretch.allocate(0, 2)
    assert not stretch.allocate(0, 3)
    assert blocks.allocate(0, 2)
    assert blocks.allocate(0, 5)
    assert not blocks.allocate(0, 9)
    assert blocks.num_held(0) == 8


def test_what_slots_are_good_for() -> None:
    memory = ContiguousMemory(20)
    memory.allocate(0, 12)
    assert usage_of(memory, [Job(3, 4)], {0: 5}, None) == Usage(used=5, reserved=2, wasted=5, stranded=0, free=8)
    assert usage_of(memory, [Job(3, 4)], {0: 5}, 8).stranded == 8
    assert usage_of(memory, [Job(3, 4)], {0: 5}, 9).free == 8


@settings(max_examples=200, deadline=None)
@given(jobs_of, st.integers(1, 5), st.integers(40, 100))
def test_every_slot_is_counted_and_every_token_written(jobs: list[Job], block_size: int, num_slots: int) -> None:
    paged = PagedMemory(num_slots, block_size)
    for memory, reserve in [
        (ContiguousMemory(num_slots), lambda job: 40),
        (ContiguousMemory(num_slots), lambda job: job.num_tokens),
        (paged, lambda job: job.prompt_len),
    ]:
        if any(-(-job.num_tokens // block_size) * block_size > memory.num_slots for job in jobs):
            continue
        usages = measure(memory, jobs, reserve)
        assert all(sum(usage) == memory.num_slots for usage in usages)
        assert all(min(usage) >= 0 for usage in usages)
        assert memory.holes() == [range(num_slots)] if isinstance(memory, ContiguousMemory) else not memory.num_blocks
        assert len(usages) >= max(job.output_len for job in jobs) + 1
        if memory is paged:  # the last block of each that runs, and nothing else
            assert all(usage.wasted + usage.reserved < block_size * len(jobs) for usage in usages)
            assert all(usage.stranded == 0 for usage in usages)


def test_a_job_that_never_fits_is_refused() -> None:
    with pytest.raises(ValueError, match="job 0 needs 9 slots, the memory has 8"):
        measure(ContiguousMemory(8), [Job(4, 5)], lambda job: job.num_tokens)
    with pytest.raises(ValueError, match="job 0 needs 9 slots, the memory has 8"):
        measure(PagedMemory(8, 4), [Job(4, 5)], lambda job: job.prompt_len)
