"""Lab 02.2: who holds a block, and what is evicted when."""

from itertools import product

from labkit import attempt, cases, check, concept, far, raises, walk


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
        return f"{block.block_id}[{'' if block.block_hash is None else block.block_hash}]"

    held = [f"{name(block)} x{block.ref_cnt}" for block in pool.blocks[1:] if block.ref_cnt]
    free = [name(pool.blocks[block_id]) for block_id in pool.free_queue.block_ids()]
    return f"held  {'  '.join(held) or '-'}\nfree  {'  '.join(free) or '-'}"


@concept("Fresh blocks come from the front of the queue, in its order.", invariant="I1", illustrates=True)
@cases(one=(1, [1]), three=(3, [1, 2, 3]), all=(4, [1, 2, 3, 4]))
def test_taking(lab, case):
    count, expected = case
    pool = lab.BlockPool(5)
    see = check(picture, pool)
    see(f"ids of get_new_blocks({count})", ids(pool.get_new_blocks(count)), equals=expected)
    see("free blocks afterwards", pool.num_free_blocks, equals=4 - count)


@concept("None are asked for: none are given, also when none are free, and nothing changes.", invariant="I1")
@cases(all_are_free=0, some_are_free=2, none_is_free=3)
def test_nothing_at_all(lab, case):
    pool = lab.BlockPool(4)
    take(pool, "abc"[:case])
    see = check(picture, pool)
    see("what get_new_blocks(0) gives", pool.get_new_blocks(0), equals=[])
    pool.touch([])
    pool.free_blocks([])
    free = list(range(case + 1, 4))
    see("free blocks after get_new_blocks(0), touch([]), free_blocks([])", pool.free_queue.block_ids(), equals=free)


@concept("A fresh block is held once, whatever it was before.", invariant="I1")
def test_a_fresh_block_is_held_once(lab):
    pool = lab.BlockPool(4)
    see = check(picture, pool)
    blocks = take(pool, "ab-")
    see("counts of the fresh blocks", counts(blocks), equals=[1, 1, 1])
    pool.free_blocks(blocks)
    see("counts after they were freed", counts(blocks), equals=[0, 0, 0])
    see("counts when they are taken again", counts(pool.get_new_blocks(3)), equals=[1, 1, 1])


@concept("Too many asked for: ValueError, and no block is taken or evicted.", invariant="I5")
def test_taking_too_many(lab):
    pool = lab.BlockPool(4)
    pool.free_blocks(take(pool, "abc"))
    see = check(picture, pool)
    with raises(ValueError, "4 blocks are asked for, 3 are free"):
        pool.get_new_blocks(4)
    see("blocks found for a, b, c after the refusal", found(pool, "abc"), equals=[1, 2, 3])
    see("free blocks, front first", pool.free_queue.block_ids(), equals=[3, 2, 1])
    see("counts of all blocks but the null block", counts(pool.blocks[1:]), equals=[0, 0, 0])


@concept("A block that is taken again is not found under its old content.", invariant="I2", illustrates=True)
def test_a_taken_block_is_forgotten(lab):
    pool = lab.BlockPool(2)
    pool.free_blocks(take(pool, "a"))
    see = check(picture, pool)
    (block,) = pool.get_new_blocks(1)
    see("blocks found for a, which is about to be overwritten", found(pool, "a"), equals=[None])
    see("the hash on the block", block.block_hash, equals=None)


@concept("Of two blocks of equal content one is evicted, and the other one answers.", invariant="I2")
@cases(the_first_is_taken=0, the_second_is_taken=1)
def test_a_duplicate_survives(lab, case):
    pool = lab.BlockPool(3)
    blocks = take(pool, "aa")
    pool.free_blocks([blocks[case]])
    see = check(picture, pool)
    pool.get_new_blocks(1)
    see(f"blocks found for a after block {1 + case} was taken", found(pool, "a"), equals=[2 - case])
    names = [None, "a"] if case == 0 else ["a", None]
    see("the names of blocks 1 and 2", [block.block_hash for block in blocks], equals=names)


@concept("A fresh block is the front of the queue, whatever it holds, and no other block is evicted.", invariant="I2")
@cases(one=1, two=2, three=3)
def test_the_front_whatever_it_holds(lab, case):
    pool = lab.BlockPool(5)
    blocks = take(pool, "abcd")
    pool.free_blocks(list(blocks))
    pool.uncache_block(blocks[1])
    see = check(picture, pool)
    what = f"ids of get_new_blocks({case}), where block 2 is without content"
    see(what, ids(pool.get_new_blocks(case)), equals=[4, 3, 2][:case])
    see("blocks found for a, c, d", found(pool, "acd"), equals=[1, 3 if case == 1 else None, None])


@concept("A name may be any value but None: blocks named 0, b'' and False are evicted like others.", invariant="I2")
@cases(zero=0, empty=b"", false=False)
def test_names_that_look_like_nothing_are_evicted(lab, case):
    pool = lab.BlockPool(3)
    pool.free_blocks(take(pool, [case, "b"]))
    see = check(picture, pool)
    pool.get_new_blocks(2)
    see(f"blocks found for {case!r} and b after all were taken", found(pool, [case, "b"]), equals=[None, None])


@concept(
    "A name may be any value but None: blocks named 0, b'' and False wait at the back like others.", invariant="I4"
)
@cases(zero=0, empty=b"", false=False)
def test_names_that_look_like_nothing_wait(lab, case):
    pool = lab.BlockPool(4)
    blocks = take(pool, [case, "b"])
    see = check(picture, pool)
    pool.free_blocks(blocks)
    see("free blocks, front first", pool.free_queue.block_ids(), equals=[3, 2, 1])


@concept("A freed block is not forgotten: it can be found until a request takes it.", invariant="I3", illustrates=True)
@cases(three="abc", equal="aab", equal_but_not_neighbours="aba")
def test_freed_blocks_are_found(lab, case):
    pool = lab.BlockPool(4)
    blocks = take(pool, case)
    answers = found(pool, case)
    see = check(picture, pool)
    pool.free_blocks(list(blocks))
    see(f"blocks found for {', '.join(case)} after the release", found(pool, case), equals=answers)
    see("the names of the blocks", [block.block_hash for block in blocks], equals=list(case))


@concept(
    "A prefix hit holds a free block again: it leaves the queue from the middle, with its content.",
    invariant="I3",
    illustrates=True,
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


@concept(
    "A held block that is touched has one holder more, and the queue is not asked.",
    invariant="I1",
    illustrates=True,
)
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


@concept("A shared block is free when the last holder lets go, not before.", invariant="I1", illustrates=True)
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


@concept("A table may hold two blocks of equal content: both are let go, and both are free.", invariant="I1")
def test_equal_content_in_one_table(lab):
    pool = lab.BlockPool(5)
    blocks = take(pool, "aab")
    see = check(picture, pool)
    pool.free_blocks(list(blocks))
    see("free blocks, by number", sorted(pool.free_queue.block_ids()), equals=[1, 2, 3, 4])


@concept("Two blocks of equal content may be touched at once: each is held once more.", invariant="I1")
def test_equal_content_in_one_hit(lab):
    pool = lab.BlockPool(5)
    blocks = take(pool, "aab")
    for block in blocks[:2]:
        pool.free_blocks([block])
    see = check(picture, pool)
    pool.touch(tuple(blocks))
    see("counts of blocks 1 to 3, where 1 and 2 were free", counts(blocks), equals=[1, 1, 2])
    see("free blocks", pool.free_queue.block_ids(), equals=[4])
    see("the names of blocks 1 to 3", [block.block_hash for block in blocks], equals=["a", "a", "b"])


@concept("Lists belong to the caller: none that is given is changed, and none is kept.", invariant="I1")
def test_lists_belong_to_the_caller(lab):
    pool = lab.BlockPool(12)
    table = pool.get_new_blocks(5)
    see = check(picture, pool)
    pool.get_new_blocks(1)
    see("the list of five fresh blocks, after one more was taken", ids(table), equals=[1, 2, 3, 4, 5])
    pool.touch(table)
    see("the list after touch()", ids(table), equals=[1, 2, 3, 4, 5])
    pool.free_blocks(table)
    see("the list after free_blocks()", ids(table), equals=[1, 2, 3, 4, 5])
    pool.free_blocks(table)
    see("the list after free_blocks() again", ids(table), equals=[1, 2, 3, 4, 5])
    table.clear()
    nothing = pool.get_new_blocks(0)
    nothing.append("what the caller puts in")
    see(
        "what get_new_blocks(0) gives, after the caller filled the list of the last time",
        pool.get_new_blocks(0),
        equals=[],
    )
    see("the next five, after the caller emptied the list", ids(pool.get_new_blocks(5)), equals=[5, 4, 3, 2, 1])


@concept("A table may be a list or a tuple.", invariant="I1", illustrates=True)
@cases(list=list, tuple=tuple)
def test_a_table_of_any_kind(lab, case):
    pool = lab.BlockPool(6)
    table = case(take(pool, "ab-"))
    see = check(picture, pool)
    pool.touch(table)
    pool.free_blocks(table)
    see("counts after one of two holders let go", counts(table), equals=[1, 1, 1])
    pool.free_blocks(table)
    see("free blocks after the other let go", pool.num_free_blocks, equals=5)


@concept("A table may have thousands of blocks: they are walked, all of them.", invariant="I1")
def test_a_long_table(lab):
    pool = lab.BlockPool(3002)
    blocks = tuple(pool.get_new_blocks(3000))
    for block in blocks:
        pool.cache_block(block, block.block_id)
    see = check()
    pool.touch(blocks)
    pool.free_blocks(blocks)
    see("how many of 3000 blocks are held once, after one of two holders let go", counts(blocks).count(1), equals=3000)
    pool.free_blocks(blocks)
    see("free blocks after the other let go", pool.num_free_blocks, equals=3001)


@concept("A block with a name is worth its place, also if another block has the same content.", invariant="I4")
def test_a_duplicate_is_cached_too(lab):
    pool = lab.BlockPool(5)
    take(pool, "a")
    two = take(pool, "a")
    see = check(picture, pool)
    pool.free_blocks(two)
    see("free blocks after one of the two was freed, front first", pool.free_queue.block_ids(), equals=[3, 4, 2])


@concept("Tail before head goes by the places in the table, and not by ids.", invariant="I4")
@cases(cached=("abc", [4, 5, 1, 3, 2]), useless=("---", [1, 3, 2, 4, 5]))
def test_ids_are_no_order(lab, case):
    contents, expected = case
    pool = lab.BlockPool(6)
    one, two, three = take(pool, contents)
    see = check(picture, pool)
    pool.free_blocks([two, three, one])
    see("free blocks after the table 2 3 1 was freed, front first", pool.free_queue.block_ids(), equals=expected)


@concept(
    "Cached blocks wait at the back, the tail of a table before its head: a prefix is evicted last.",
    invariant="I4",
    illustrates=True,
)
def test_order_of_cached_blocks(lab):
    pool = lab.BlockPool(6)
    blocks = take(pool, "abc")
    see = check(picture, pool)
    pool.free_blocks(blocks)
    see("free blocks, front first", pool.free_queue.block_ids(), equals=[4, 5, 3, 2, 1])
    pool.get_new_blocks(4)
    see("blocks found for a, b, c after four blocks were taken", found(pool, "abc"), equals=[1, None, None])


@concept(
    "Blocks without content are of no use: they are taken first, again the tail first.",
    invariant="I4",
    illustrates=True,
)
def test_order_of_useless_blocks(lab):
    pool = lab.BlockPool(6)
    pool.free_blocks(take(pool, "a"))
    blocks = pool.get_new_blocks(3)
    see = check(picture, pool)
    pool.free_blocks(blocks)
    see("free blocks, front first", pool.free_queue.block_ids(), equals=[4, 3, 2, 5, 1])


@concept(
    "In one table the full blocks are cached and the last is not: each goes where it belongs.",
    invariant="I4",
    illustrates=True,
)
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


@concept("Freed more often than held is an error that must be seen, wherever the block stands.", invariant="I5")
@cases(alone=[0], one_behind=[4], two=[0, 1], between=[1, 0, 2], six=[5, 4, 3, 0, 2, 1])
def test_freed_once_too_often(lab, case):
    for contents, free in product(("abcdef", "------"), case):
        pool = lab.BlockPool(7)
        blocks = take(pool, contents)
        pool.free_blocks([blocks[free]])
        table = [blocks[i] for i in case]
        who = f"block {free + 1}, {'with' if contents == 'abcdef' else 'without'} content,"
        with raises(AssertionError, f"table {ids(table)} is freed, and {who} is held by 0 tables"):
            pool.free_blocks(table)


@concept("A block may be held by any number of tables, and it keeps its content all the while.", invariant="I1")
def test_many_holders(lab):
    pool, number = lab.BlockPool(3), far(5_000, 100_000)
    blocks = take(pool, "a-")
    see = check(picture, pool)
    for _ in range(number):
        pool.touch(blocks)
    see(f"counts of two blocks that {number + 1} tables hold", counts(blocks), equals=[number + 1] * 2)
    for _ in range(number):
        pool.free_blocks(blocks)
    see(f"counts after {number} of them let go", counts(blocks), equals=[1, 1])
    see("the block found for a", found(pool, "a"), equals=[1])
    pool.free_blocks(blocks)
    see("free blocks after the last let go, front first", pool.free_queue.block_ids(), equals=[2, 1])


@concept(
    "A name may come or go while a block is held: what counts is the name that it has when it is freed.", invariant="I4"
)
@cases(taken_away=("abc", [2, 5, 6, 4, 3, 1]), given=("a-c", [4, 5, 6, 3, 2, 1]))
def test_names_change_while_held(lab, case):
    contents, expected = case
    pool = lab.BlockPool(7)
    blocks = take(pool, contents)
    useless = pool.get_new_blocks(1)
    pool.touch(blocks)
    pool.free_blocks(list(blocks))
    see = check(picture, pool)
    if contents == "abc":
        pool.free_blocks(useless)
        pool.get_new_blocks(1)
        pool.cache_block(useless[0], "d")
        pool.uncache_block(blocks[1])
    else:
        pool.cache_block(blocks[1], "b")
    pool.free_blocks([*blocks, *useless])
    what = "block 2 lost its name" if contents == "abc" else "block 2 got a name"
    see(f"free blocks, front first; {what} between two releases", pool.free_queue.block_ids(), equals=expected)
    pool.touch(blocks[:1])
    pool.uncache_block(blocks[0])
    pool.free_blocks(blocks[:1])
    expected = [1, *expected[:-1]]
    see("free blocks, after block 1 was held again and lost its name", pool.free_queue.block_ids(), equals=expected)


def plan_tables(rng):
    """A pool, and tables that take blocks, find blocks by their content and are freed. "-": without content."""
    calls = [("BlockPool", rng.choice((1, 3, 5, 7)))]
    for _ in range(rng.randint(4, 32)):
        table = rng.choice("stuv")
        name = rng.choice(("take", "take", "take", "hit", "hit", "hit", "hit", "free", "free", "forget"))
        if name == "take":
            calls.append(
                (name, table, "".join(rng.choice("ab0-") for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 3, 8)))))
            )
        elif name == "hit":
            calls.append((name, table, "".join(rng.sample("ab0", rng.randint(1, 3)))))
        else:
            calls.append((name, table if name == "free" else rng.choice("ab0")))
    return calls


def play_tables(lab, calls):
    """take: fresh blocks behind a table, with contents. hit: the blocks of these contents, touched, behind a table."""
    names = {"a": "a", "b": "b", "0": 0}
    tables = {}
    for call, *arguments in calls:
        if call == "BlockPool":
            pool = lab.BlockPool(arguments[0] + 1)
        elif call == "take":
            table, contents = arguments
            fresh = attempt(ValueError, pool.get_new_blocks, len(contents))
            yield "I5", "whether get_new_blocks() refuses", fresh == "ValueError", picture(pool)
            if fresh != "ValueError":
                yield "I1", "the fresh blocks", ids(fresh), picture(pool)
                yield "I2", "their names", [block.block_hash for block in fresh], picture(pool)
                for block, content in zip(fresh, contents):
                    if content != "-":
                        pool.cache_block(block, names[content])
                tables.setdefault(table, []).extend(fresh)
        elif call == "hit":
            table, contents = arguments
            blocks = [pool.get_cached_block(names[content]) for content in contents]
            held = tables.setdefault(table, [])
            blocks = [block for i, block in enumerate(blocks) if block and block not in [*held, *blocks[:i]]]
            pool.touch(block for block in blocks)
            held.extend(blocks)
        elif call == "free":
            pool.free_blocks(tables.pop(arguments[0], []))
        elif block := pool.get_cached_block(names[arguments[0]]):
            pool.uncache_block(block)
        found_now = [block and block.block_id for block in map(pool.get_cached_block, names.values())]
        yield "I1", "counts of all blocks", counts(pool.blocks), picture(pool)
        yield "I4" if call == "free" else "I1", "free blocks, front first", pool.free_queue.block_ids(), picture(pool)
        yield "I2" if call == "take" else "I3", "blocks found for a, b and 0", found_now, picture(pool)
        yield "I3", "names of all blocks", [block.block_hash for block in pool.blocks], picture(pool)


@concept(
    "After any calls in any order, each block is held or free, and found as long as it may be.",
    invariant="I1",
    searches=True,
)
def test_any_calls(lab):
    walk(lab, plan_tables, play_tables, 80)
