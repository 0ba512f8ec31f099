"""Lab 02.2: who holds a block, and what is evicted when."""

from labkit import cases, check, concept, raises


def take(pool, contents):
    """Fresh blocks, one for each letter: its content, or "-" for a block that is not cached."""
    blocks = pool.get_new_blocks(len(contents))
    for block, content in zip(blocks, contents):
        if content != "-":
            pool.cache_block(block, content)
    return blocks


def ids(blocks):
    return [block.block_id for block in blocks]


def counts(blocks):
    return [block.ref_cnt for block in blocks]


def found(pool, contents):
    """The ids of the blocks that answer for these contents; None where nobody does."""
    answers = [pool.get_cached_block(content) for content in contents]
    return [answer and answer.block_id for answer in answers]


def picture(pool):
    """Held blocks with their counts, free ones front first; the content in brackets."""

    def name(block):
        return f"{block.block_id}[{block.block_hash or ''}]"

    held = [f"{name(block)} x{block.ref_cnt}" for block in pool.blocks[1:] if block.ref_cnt]
    free = [name(pool.blocks[block_id]) for block_id in pool.free_queue.block_ids()]
    return f"held  {'  '.join(held) or '-'}\nfree  {'  '.join(free) or '-'}"


@concept("Fresh blocks come from the front of the queue, in its order.", invariant="I1")
@cases(none=(0, []), one=(1, [1]), three=(3, [1, 2, 3]), all=(4, [1, 2, 3, 4]))
def test_taking(lab, case):
    count, expected = case
    pool = lab.BlockPool(5)
    see = check(picture, pool)
    see(f"ids of get_new_blocks({count})", ids(pool.get_new_blocks(count)), equals=expected)
    see("free blocks afterwards", pool.num_free_blocks, equals=4 - count)


@concept("A fresh block is held once, whatever it was before.", invariant="I1")
def test_a_fresh_block_is_held_once(lab):
    pool = lab.BlockPool(4)
    see = check(picture, pool)
    blocks = take(pool, "ab-")
    see("counts of the fresh blocks", counts(blocks), equals=[1, 1, 1])
    pool.free_blocks(blocks)
    see("counts after they were freed", counts(blocks), equals=[0, 0, 0])
    see("counts when they are taken again", counts(pool.get_new_blocks(3)), equals=[1, 1, 1])


@concept("Too many asked for: ValueError, and nobody is taken or evicted.", invariant="I5")
def test_taking_too_many(lab):
    pool = lab.BlockPool(4)
    pool.free_blocks(take(pool, "abc"))
    see = check(picture, pool)
    with raises(ValueError, "4 blocks are asked for, 3 are free"):
        pool.get_new_blocks(4)
    see("blocks found for a, b, c after the refusal", found(pool, "abc"), equals=[1, 2, 3])
    see("free blocks", pool.num_free_blocks, equals=3)
    see("counts of all blocks but the null block", counts(pool.blocks[1:]), equals=[0, 0, 0])


@concept("A block that is taken again is not found under its old content.", invariant="I2")
def test_a_taken_block_is_forgotten(lab):
    pool = lab.BlockPool(2)
    pool.free_blocks(take(pool, "a"))
    see = check(picture, pool)
    (block,) = pool.get_new_blocks(1)
    see("blocks found for a, which is about to be overwritten", found(pool, "a"), equals=[None])
    see("the hash on the block", block.block_hash, equals=None)


@concept("Of two blocks of equal content one is evicted, and the other one answers.", invariant="I2")
def test_a_duplicate_survives(lab):
    pool = lab.BlockPool(3)
    first, second = take(pool, "aa")
    pool.free_blocks([first])
    see = check(picture, pool)
    pool.get_new_blocks(1)
    see("blocks found for a after block 1 was taken", found(pool, "a"), equals=[2])
    see("the hash on block 2", second.block_hash, equals="a")


@concept("To free is not to forget: a free block is found until somebody takes it.", invariant="I3", illustrates=True)
def test_freed_blocks_are_found(lab):
    pool = lab.BlockPool(4)
    blocks = take(pool, "abc")
    see = check(picture, pool)
    pool.free_blocks(blocks)
    see("blocks found for a, b, c after the release", found(pool, "abc"), equals=[1, 2, 3])


@concept(
    "A prefix hit holds a free block again: it leaves the queue from the middle, with its content.", invariant="I3"
)
def test_touching_a_free_block(lab):
    pool = lab.BlockPool(4)
    blocks = take(pool, "abc")
    for block in blocks:
        pool.free_blocks([block])
    see = check(picture, pool)
    pool.touch([blocks[1]])
    see("count of block 2", blocks[1].ref_cnt, equals=1)
    see("free blocks, front first", pool.free_queue.block_ids(), equals=[1, 3])
    see("blocks found for a, b, c", found(pool, "abc"), equals=[1, 2, 3])


@concept("Who touches a held block shares it: one more holder, and the queue is not asked.", invariant="I1")
def test_touching_a_held_block(lab):
    pool = lab.BlockPool(4)
    blocks = take(pool, "ab")
    see = check(picture, pool)
    pool.touch(blocks)
    pool.touch(blocks[:1])
    see("counts of the two blocks", counts(blocks), equals=[3, 2])
    see("free blocks, front first", pool.free_queue.block_ids(), equals=[3])


@concept("A hit may be free or held, block by block, and it is walked once.", invariant="I1")
def test_touching_a_mixed_hit(lab):
    pool = lab.BlockPool(5)
    blocks = take(pool, "abcd")
    pool.free_blocks(blocks[1:3])
    see = check(picture, pool)
    pool.touch(block for block in blocks)
    see("counts of the four blocks, 2 and 3 of which were free", counts(blocks), equals=[2, 1, 1, 2])
    see("free blocks", pool.num_free_blocks, equals=0)


@concept("A shared block is free when the last holder lets go, not before.", invariant="I1")
def test_shared_blocks(lab):
    pool = lab.BlockPool(6)
    one = take(pool, "abc")
    pool.touch(one[:2])
    two = [*one[:2], *take(pool, "d")]
    see = check(picture, pool)
    pool.free_blocks(two)
    see("counts of blocks 1 to 4 after the second request let go", counts(pool.blocks[1:5]), equals=[1, 1, 1, 0])
    see("free blocks, front first", pool.free_queue.block_ids(), equals=[5, 4])
    pool.free_blocks(one)
    see("counts after both let go", counts(pool.blocks[1:5]), equals=[0, 0, 0, 0])
    see("free blocks after both let go", pool.num_free_blocks, equals=5)


@concept(
    "Cached blocks wait at the back, the tail of a table before its head: a prefix is evicted last.", invariant="I4"
)
def test_order_of_cached_blocks(lab):
    pool = lab.BlockPool(6)
    blocks = take(pool, "abc")
    see = check(picture, pool)
    pool.free_blocks(blocks)
    see("free blocks, front first", pool.free_queue.block_ids(), equals=[4, 5, 3, 2, 1])
    pool.get_new_blocks(4)
    see("blocks found for a, b, c after four blocks were taken", found(pool, "abc"), equals=[1, None, None])


@concept("Blocks without content are of no use to anybody: they are taken first, again the tail first.", invariant="I4")
def test_order_of_useless_blocks(lab):
    pool = lab.BlockPool(6)
    pool.free_blocks(take(pool, "a"))
    blocks = pool.get_new_blocks(3)
    see = check(picture, pool)
    pool.free_blocks(blocks)
    see("free blocks, front first", pool.free_queue.block_ids(), equals=[4, 3, 2, 5, 1])


@concept("In one table the full blocks are cached and the last is not: each goes where it belongs.", invariant="I4")
@cases(
    last_not_full=("abc-", [4, 5, 6, 3, 2, 1]),
    hole=("a-c-", [4, 2, 5, 6, 3, 1]),
    head_useless=("-bc", [1, 4, 5, 6, 3, 2]),
)
def test_order_in_a_mixed_table(lab, case):
    contents, expected = case
    pool = lab.BlockPool(7)
    blocks = take(pool, contents)
    see = check(picture, pool)
    table = tuple(blocks)
    pool.free_blocks(table)
    see("free blocks, front first", pool.free_queue.block_ids(), equals=expected)


@concept(
    "Freed more often than held is an error that must be seen, and the caller keeps the list given.", invariant="I5"
)
def test_misuse_and_manners(lab):
    pool = lab.BlockPool(4)
    blocks = take(pool, "abc")
    see = check(picture, pool)
    table = list(blocks)
    pool.free_blocks(table)
    see("the caller's list after free_blocks()", ids(table), equals=[1, 2, 3])
    with raises((AssertionError, ValueError), "block 1 is freed again, and nobody holds it"):
        pool.free_blocks(blocks[:1])
