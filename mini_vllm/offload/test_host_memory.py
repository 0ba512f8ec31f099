"""The CPU pool: every block is free or held, tables come back as they went, what is shared is held
once.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_vllm.errors import InvalidParameterError
from mini_vllm.offload.host_memory import HostMemoryPool


def test_a_table_goes_out_and_comes_back() -> None:
    pool = HostMemoryPool(4)
    pairs = pool.store("a", [7, 3, 9])
    assert pairs == [(7, 0), (3, 1), (9, 2)]
    assert (pool.num_free_blocks, "a" in pool, pool.get_block_ids("a")) == (1, True, [0, 1, 2])
    assert pool.fetch("a", [5, 6, 8]) == [(0, 5), (1, 6), (2, 8)]
    assert pool.fetch("a", [4], start=2) == [(2, 4)]  # the rest was found on the device
    assert pool.num_free_blocks == 1, "until free() a failed step can fall back to it"
    pool.free("a")
    pool.free("a")
    assert (pool.num_free_blocks, "a" in pool, pool.get_block_ids("a")) == (4, False, [])


def test_a_table_that_does_not_fit_changes_nothing() -> None:
    pool = HostMemoryPool(2)
    assert pool.store("a", [1, 2, 3]) is None
    assert (pool.num_free_blocks, "a" in pool) == (2, False)
    assert HostMemoryPool(0).store("a", [1]) is None
    with pytest.raises(InvalidParameterError, match="num_cpu_blocks must be at least 0, got -1"):
        HostMemoryPool(-1)


def test_a_shared_block_is_copied_once_and_held_to_the_last() -> None:
    pool = HostMemoryPool(5)
    first = pool.store("a", [1, 2, 3])
    assert first is not None
    second = pool.store("b", [1, 2, 4], shared=dict(first))
    assert second == [(4, 3)]
    assert (pool.get_block_ids("b"), pool.num_free_blocks) == ([0, 1, 3], 1)
    pool.free("a")
    assert pool.num_free_blocks == 2
    pool.free("b")
    assert pool.num_free_blocks == 5


@settings(derandomize=True, database=None, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 5), max_size=5, unique=True)),
        max_size=20,
    )
)
def test_every_cpu_block_is_free_or_held(operations: list[tuple[str, list[int]]]) -> None:
    pool, model, places = HostMemoryPool(8), {}, {}
    for request_id, block_ids in operations:
        if request_id in model:
            pool.free(request_id)
            del model[request_id]
        elif (
            pairs := pool.store(request_id, block_ids, places := live_places(pool, model))
        ) is not None:
            assert not {cpu for _, cpu in pairs} & set(places.values())
            model[request_id] = block_ids
            assert [{**places, **dict(pairs)}[block] for block in block_ids] == pool.get_block_ids(
                request_id
            )
        held = {cpu for each in model for cpu in pool.get_block_ids(each)}
        assert pool.num_free_blocks == pool.num_blocks - len(held)
        for each, blocks in model.items():
            assert len(set(pool.get_block_ids(each))) == len(blocks)


def live_places(pool: HostMemoryPool, model: dict[str, list[int]]) -> dict[int, int]:
    return {
        block: cpu
        for each, blocks in model.items()
        for block, cpu in zip(blocks, pool.get_block_ids(each), strict=True)
    }
