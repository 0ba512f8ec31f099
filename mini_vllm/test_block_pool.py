"""The free queue is a list with a cheap middle, and the pool keeps every block in exactly one
place.
"""

import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from mini_vllm.block_pool import BlockPool, FreeKVCacheBlockQueue, KVCacheBlock


def make_blocks(num_blocks: int) -> list[KVCacheBlock]:
    return [KVCacheBlock(block_id) for block_id in range(num_blocks)]


def ids(blocks: list[KVCacheBlock]) -> list[int]:
    return [block.block_id for block in blocks]


# --- the free queue -------------------------------------------------------------------------------


def test_blocks_are_taken_in_the_order_in_which_they_were_given() -> None:
    queue = FreeKVCacheBlockQueue(make_blocks(4))
    assert queue.num_free_blocks == 4
    assert [queue.popleft().block_id for _ in range(4)] == [0, 1, 2, 3]
    assert queue.num_free_blocks == 0
    assert queue.block_ids() == []


def test_popleft_n_takes_from_the_front() -> None:
    queue = FreeKVCacheBlockQueue(make_blocks(5))
    assert ids(queue.popleft_n(2)) == [0, 1]
    assert queue.popleft_n(0) == []
    assert queue.block_ids() == [2, 3, 4]
    assert ids(queue.popleft_n(3)) == [2, 3, 4]
    assert queue.num_free_blocks == 0


def test_append_n_is_taken_last_and_prepend_n_next() -> None:
    blocks = make_blocks(6)
    queue = FreeKVCacheBlockQueue(blocks[:2])
    queue.append_n(blocks[2:4])
    queue.prepend_n(blocks[4:])
    assert queue.block_ids() == [4, 5, 0, 1, 2, 3]
    assert queue.num_free_blocks == 6


def test_an_empty_list_changes_nothing() -> None:
    queue = FreeKVCacheBlockQueue(make_blocks(2))
    queue.append_n([])
    queue.prepend_n([])
    assert queue.block_ids() == [0, 1]
    assert queue.num_free_blocks == 2


def test_an_empty_queue_can_be_filled_again_from_either_end() -> None:
    blocks = make_blocks(3)
    queue = FreeKVCacheBlockQueue([])
    queue.prepend_n(blocks[:1])
    assert queue.popleft() is blocks[0]
    queue.append_n(blocks[1:])
    assert queue.popleft_n(2) == blocks[1:]
    assert queue.block_ids() == []


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_block_can_be_removed_from_anywhere(position: int) -> None:
    blocks = make_blocks(3)
    queue = FreeKVCacheBlockQueue(blocks)
    queue.remove(blocks[position])
    rest = [i for i in range(3) if i != position]
    assert queue.block_ids() == rest
    assert queue.num_free_blocks == 2
    assert ids(queue.popleft_n(2)) == rest


def test_a_block_that_left_has_no_links() -> None:
    blocks = make_blocks(4)
    queue = FreeKVCacheBlockQueue(blocks)
    queue.remove(blocks[1])
    queue.popleft_n(2)
    assert all(
        block.prev_free_block is None and block.next_free_block is None for block in blocks[:3]
    )


def test_taking_too_many_takes_none() -> None:
    queue = FreeKVCacheBlockQueue(make_blocks(2))
    with pytest.raises(ValueError, match="cannot take 3 blocks, 2 are free"):
        queue.popleft_n(3)
    assert queue.block_ids() == [0, 1]
    assert queue.num_free_blocks == 2


def test_popleft_of_an_empty_queue_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot take 1 blocks, 0 are free"):
        FreeKVCacheBlockQueue([]).popleft()


def test_removing_a_block_that_is_not_free_changes_nothing() -> None:
    blocks = make_blocks(3)
    queue = FreeKVCacheBlockQueue(blocks)
    taken = queue.popleft()
    with pytest.raises(ValueError, match=r"KVCacheBlock\(0, ref_cnt=0, cached=False\) is not free"):
        queue.remove(taken)
    with pytest.raises(ValueError, match="is not free"):
        queue.remove(KVCacheBlock(7))
    assert queue.block_ids() == [1, 2]
    assert queue.num_free_blocks == 2


def test_the_queue_behaves_like_a_list() -> None:
    """The model: a Python list. Ten thousand random operations on both."""
    rng = random.Random(0)
    blocks = make_blocks(9)
    queue, model, out = FreeKVCacheBlockQueue(blocks), list(blocks), []
    for _ in range(10_000):
        operation = rng.choice(("popleft_n", "remove", "append_n", "prepend_n"))
        if operation == "popleft_n":
            n = rng.randint(0, len(model))
            taken, model = model[:n], model[n:]
            assert queue.popleft_n(n) == taken
            out += taken
        elif operation == "remove" and model:
            block = model.pop(rng.randrange(len(model)))
            queue.remove(block)
            out.append(block)
        else:
            rng.shuffle(out)
            n = rng.randint(0, len(out))
            back, out = out[:n], out[n:]
            if operation == "append_n":
                queue.append_n(back)
                model = model + back
            else:
                queue.prepend_n(back)
                model = back + model
        assert queue.block_ids() == ids(model)
        assert queue.num_free_blocks == len(model)


# --- the pool -------------------------------------------------------------------------------------


def test_block_0_is_the_null_block_and_never_handed_out() -> None:
    pool = BlockPool(4)
    assert pool.null_block.block_id == 0
    assert pool.num_free_blocks == 3
    assert ids(pool.get_new_blocks(3)) == [1, 2, 3]
    with pytest.raises(ValueError, match="0 are free"):
        pool.get_new_blocks(1)


def test_new_blocks_are_held_once_and_hold_nothing() -> None:
    pool = BlockPool(4)
    blocks = pool.get_new_blocks(2)
    assert [block.ref_cnt for block in blocks] == [1, 1]
    assert [block.block_hash for block in blocks] == [None, None]
    assert pool.num_free_blocks == 1


def test_a_cached_block_is_found_while_it_is_held_and_after_it_is_freed() -> None:
    pool = BlockPool(4)
    (block,) = pool.get_new_blocks(1)
    pool.cache_block(block, "content")
    assert pool.get_cached_block("content") is block
    assert block.block_hash == "content"
    pool.free_blocks([block])
    assert pool.get_cached_block("content") is block
    assert pool.get_cached_block("other content") is None
    assert pool.num_cached_hashes == 1


def test_a_block_is_cached_under_one_hash_only() -> None:
    pool = BlockPool(4)
    (block,) = pool.get_new_blocks(1)
    pool.cache_block(block, "content")
    with pytest.raises(
        AssertionError, match=r"KVCacheBlock\(1, ref_cnt=1, cached=True\) is cached already"
    ):
        pool.cache_block(block, "other content")
    assert pool.get_cached_block("other content") is None


def test_touch_takes_a_free_block_out_of_the_middle_of_the_queue() -> None:
    pool = BlockPool(5)
    blocks = pool.get_new_blocks(4)
    for block in blocks:
        pool.cache_block(block, block.block_id)
    pool.free_blocks(blocks)
    assert pool.free_queue.block_ids() == [4, 3, 2, 1]
    pool.touch([blocks[1]])
    pool.touch([blocks[1]])  # held already: only counted
    assert blocks[1].ref_cnt == 2
    assert pool.free_queue.block_ids() == [4, 3, 1]
    pool.get_new_blocks(3)
    assert pool.get_cached_block(2) is blocks[1], "what is held is never evicted"


def test_a_block_with_several_holders_is_free_when_the_last_one_lets_go() -> None:
    pool = BlockPool(3)
    blocks = pool.get_new_blocks(1)
    pool.touch(blocks)
    pool.free_blocks(blocks)
    assert blocks[0].ref_cnt == 1
    assert pool.num_free_blocks == 1
    pool.free_blocks(blocks)
    assert blocks[0].ref_cnt == 0
    assert pool.num_free_blocks == 2


def test_a_block_cannot_be_freed_more_often_than_it_is_held() -> None:
    pool = BlockPool(3)
    blocks = pool.get_new_blocks(1)
    pool.free_blocks(blocks)
    with pytest.raises(
        AssertionError, match=r"KVCacheBlock\(1, ref_cnt=0, cached=False\) is freed more often"
    ):
        pool.free_blocks(blocks)
    assert blocks[0].ref_cnt == 0
    assert pool.num_free_blocks == 2


def test_free_order_is_vllms() -> None:
    """Blocks without a hash to the front, cached ones to the back, both with the table's tail
    first.
    """
    pool = BlockPool(8)
    table = pool.get_new_blocks(5)
    for block in table[:3]:
        pool.cache_block(block, block.block_id)
    pool.free_blocks(table)
    assert pool.free_queue.block_ids() == [5, 4, 6, 7, 3, 2, 1]


def test_duplicates_are_found_in_the_order_in_which_they_were_cached() -> None:
    pool = BlockPool(4)
    first, second = pool.get_new_blocks(2)
    pool.cache_block(second, "content")
    pool.cache_block(first, "content")
    assert pool.num_cached_hashes == 1
    assert pool.get_cached_block("content") is second
    pool.uncache_block(second)
    assert pool.get_cached_block("content") is first
    pool.uncache_block(first)
    assert pool.get_cached_block("content") is None
    assert pool.num_cached_hashes == 0
    pool.uncache_block(first)  # has no hash any more: nothing happens


def test_trap_17_a_block_that_is_taken_again_is_forgotten() -> None:
    pool = BlockPool(2)
    blocks = pool.get_new_blocks(1)
    pool.cache_block(blocks[0], "old")
    pool.free_blocks(blocks)
    assert pool.get_new_blocks(1) == blocks
    assert pool.get_cached_block("old") is None
    assert blocks[0].block_hash is None
    assert pool.num_cached_hashes == 0


def test_trap_18_evicting_one_duplicate_leaves_the_other() -> None:
    pool = BlockPool(3)
    first, second = pool.get_new_blocks(2)
    pool.cache_block(first, "content")
    pool.cache_block(second, "content")
    pool.free_blocks([first])
    assert pool.get_new_blocks(1) == [first]  # evicts the one that answered
    assert pool.get_cached_block("content") is second


def test_uncache_hash_forgets_all_duplicates() -> None:
    pool = BlockPool(4)
    first, second, other = pool.get_new_blocks(3)
    pool.cache_block(first, "content")
    pool.cache_block(second, "content")
    pool.cache_block(other, "other")
    pool.uncache_hash("content")
    pool.uncache_hash("never cached")
    assert pool.get_cached_block("content") is None
    assert (first.block_hash, second.block_hash, other.block_hash) == (None, None, "other")
    assert pool.num_cached_hashes == 1


def lines_of_a_hit(num_blocks: int) -> int:
    """The lines of Python that run when a free block in the middle of the queue is hit, and freed
    again.
    """
    pool = BlockPool(num_blocks)
    blocks = pool.get_new_blocks(num_blocks - 1)
    for block in blocks:
        pool.cache_block(block, block.block_id)
    pool.free_blocks(blocks)
    lines = 0

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        pool.touch([blocks[num_blocks // 2]])
        pool.free_blocks([blocks[num_blocks // 2]])
    finally:
        sys.settrace(before)
    return lines


def test_trap_09_a_hit_costs_the_same_in_a_large_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list or a deque would look at every block before it, and each look is a line."""

    def same(self: KVCacheBlock, other: object) -> bool:
        return self is other

    monkeypatch.setattr(KVCacheBlock, "__eq__", same)
    assert lines_of_a_hit(10_000) == lines_of_a_hit(100)


def test_a_pool_says_what_is_wrong_with_it() -> None:
    """Each block is in exactly one place, and each name leads to its block; whatever is broken is
    named.
    """

    def broken(change: Callable[[BlockPool], object]) -> str:
        pool = BlockPool(6)
        pool.cache_block(pool.get_new_blocks(2)[0], "content")
        pool.check_integrity()
        change(pool)
        with pytest.raises(AssertionError) as error:
            pool.check_integrity()
        return str(error.value)

    assert "not held" in broken(lambda pool: setattr(pool.blocks[1], "ref_cnt", 0))
    assert "not held" in broken(lambda pool: setattr(pool.blocks[4], "ref_cnt", 1))
    assert "not held" in broken(lambda pool: setattr(pool.free_queue, "num_free_blocks", 2))
    assert "names without a block" in broken(
        lambda pool: setattr(pool.blocks[1], "block_hash", None)
    )
    assert "names without a block" in broken(
        lambda pool: setattr(pool.blocks[2], "block_hash", "other")
    )
