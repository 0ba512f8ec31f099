"""Lab 02.1: an order of free blocks that can be left from the middle."""

from functools import partial

from labkit import attempt, cases, check, concept, processor_seconds, raises, scaled, walk


def make(lab, num_blocks, first=0):
    """Blocks first, first + 1, ... and a queue of them."""
    blocks = [lab.KVCacheBlock(first + i) for i in range(num_blocks)]
    return blocks, lab.FreeKVCacheBlockQueue(blocks)


def drain(queue, count):
    """The ids of the next `count` blocks, taken one by one."""
    return [queue.popleft().block_id for _ in range(count)]


@concept("Blocks are taken from the front, in the order in which they came.", invariant="I1", illustrates=True)
@cases(one=1, three=3, four=4, sixteen=16)
def test_first_come_first_taken(lab, case):
    _, queue = make(lab, case)
    see = check(lab.draw.queue, queue)
    taken = [queue.popleft() for _ in range(case)]
    see("ids in the order taken", [block.block_id for block in taken], equals=list(range(case)))


@concept("To put nothing in, or to take nothing out, changes nothing; an empty queue gives nothing.", invariant="I1")
@cases(empty=0, one=1, three=3)
def test_nothing_at_all(lab, case):
    for call in ("append_n", "prepend_n", "popleft_n"):
        for kind in ("list", "generator") if call != "popleft_n" else ("number",):
            _, queue = make(lab, case)
            see = check(lab.draw.queue, queue)
            nothing = {"list": [], "generator": iter(()), "number": 0}[kind]
            got = getattr(queue, call)(nothing)
            if call == "popleft_n":
                see("what popleft_n(0) gives", got, equals=[])
            see(f"blocks after {call}() of nothing, a {kind}", queue.block_ids(), equals=list(range(case)))
            see("the number of them", queue.num_free_blocks, equals=case)


@concept("What is taken are the very blocks that were put in, and all but the links is as it was.", invariant="I1")
def test_the_very_blocks(lab):
    blocks, queue = make(lab, 5)
    for block in blocks:
        block.ref_cnt, block.block_hash = block.block_id, f"content {block.block_id}"
    see = check(lab.draw.queue, queue)
    taken = [queue.popleft(), *queue.popleft_n(2), blocks[3]]
    queue.remove(blocks[3])
    see("whether they are the same objects", [a is b for a, b in zip(taken, blocks)], equals=[True] * 4)
    queue.append_n(taken[:2])
    queue.prepend_n(taken[2:])
    see("ref_cnt of the blocks", [block.ref_cnt for block in blocks], equals=[0, 1, 2, 3, 4])
    contents = [block.block_hash for block in blocks]
    see("block_hash of the blocks", contents, equals=[f"content {i}" for i in range(5)])


@concept("Blocks may come from a generator, which can be walked once.", invariant="I1")
@cases(append="append_n", prepend="prepend_n")
def test_a_generator(lab, case):
    _, queue = make(lab, 2)
    see = check(lab.draw.queue, queue)
    getattr(queue, case)(lab.KVCacheBlock(50) for _ in range(1))
    expected = [0, 1, 50] if case == "append_n" else [50, 0, 1]
    see(f"blocks after {case}() of a generator of block 50", queue.block_ids(), equals=expected)
    see("the number of them", queue.num_free_blocks, equals=3)


@concept("A generator may take from the queue itself, while its blocks are put in.", invariant="I3", illustrates=True)
def test_a_generator_that_takes(lab):
    _, queue = make(lab, 4)
    see = check(lab.draw.queue, queue)
    queue.append_n(queue.popleft() for _ in range(2))
    see("the number of blocks", queue.num_free_blocks, equals=4)
    see("blocks after the first two were taken and appended", queue.block_ids(), equals=[2, 3, 0, 1])


@concept(
    "A list that is given, or was given back, is the caller's: neither of the two changes the other's.", invariant="I1"
)
def test_lists_belong_to_the_caller(lab):
    given = [lab.KVCacheBlock(i) for i in range(4)]
    queue = lab.FreeKVCacheBlockQueue(given)
    see = check(lab.draw.queue, queue)
    see("the list that the queue was made of", [block.block_id for block in given], equals=[0, 1, 2, 3])
    given.clear()
    see("blocks after the caller emptied that list", queue.block_ids(), equals=[0, 1, 2, 3])
    taken, nothing = queue.popleft_n(2), queue.popleft_n(0)
    queue.popleft_n(1)
    see("the list of two blocks, after one more was taken", [block.block_id for block in taken], equals=[0, 1])
    nothing += taken
    see("what popleft_n(0) gives, after the caller filled the list of the last time", queue.popleft_n(0), equals=[])
    queue.append_n(taken)
    queue.prepend_n(nothing[:0])
    see("the list after append_n()", [block.block_id for block in taken], equals=[0, 1])
    taken.clear()
    queue.block_ids().clear()
    see("blocks after the caller emptied all lists", queue.block_ids(), equals=[3, 0, 1])


@concept(
    "Several are taken at once from the front; the queue goes on where they ended.", invariant="I1", illustrates=True
)
@cases(none=(0, []), one=(1, [0]), three=(3, [0, 1, 2]), all=(5, [0, 1, 2, 3, 4]))
def test_taking_several(lab, case):
    count, expected = case
    _, queue = make(lab, 5)
    see = check(lab.draw.queue, queue)
    taken = queue.popleft_n(count)
    see(f"ids of popleft_n({count})", [block.block_id for block in taken], equals=expected)
    see("ids of the rest, taken one by one", drain(queue, 5 - count), equals=list(range(count, 5)))


@concept("What is appended is taken last, in the order given.", invariant="I1", illustrates=True)
@cases(two=(2, [51, 50], [0, 1, 51, 50]), into_empty=(0, [52, 50, 51], [52, 50, 51]))
def test_append(lab, case):
    before, new, expected = case
    _, queue = make(lab, before)
    see = check(lab.draw.queue, queue)
    queue.append_n([lab.KVCacheBlock(block_id) for block_id in new])
    see(f"blocks after append_n() of {new}", queue.block_ids(), equals=expected)
    see("the same, taken one by one", drain(queue, before + len(new)), equals=expected)


@concept("What is prepended is taken next, in the order given.", invariant="I1")
@cases(two=(2, [50, 51], [50, 51, 0, 1]), into_empty=(0, [52, 50, 51], [52, 50, 51]))
def test_prepend(lab, case):
    before, new, expected = case
    _, queue = make(lab, before)
    see = check(lab.draw.queue, queue)
    queue.prepend_n([lab.KVCacheBlock(block_id) for block_id in new])
    see(f"blocks after prepend_n() of {new}", queue.block_ids(), equals=expected)
    see("the same, taken one by one", drain(queue, before + len(new)), equals=expected)


@concept("A block leaves from wherever it stands, and no other block moves.", invariant="I2")
@cases(
    front=(3, [0], [1, 2]),
    middle=(3, [1], [0, 2]),
    back=(3, [2], [0, 1]),
    the_only_one=(1, [0], []),
    then_its_right_neighbour=(5, [2, 3], [0, 1, 4]),
    then_its_left_neighbour=(5, [2, 1], [0, 3, 4]),
)
def test_remove(lab, case):
    count, leaving, expected = case
    blocks, queue = make(lab, count)
    see = check(lab.draw.queue, queue)
    for i in leaving:
        queue.remove(blocks[i])
    see(f"blocks after {leaving} were removed", queue.block_ids(), equals=expected)
    see("the same, taken one by one", drain(queue, len(expected)), equals=expected)


@concept("Ids say nothing about the order: the queue is as it was made, whatever the ids.", invariant="I1")
def test_ids_are_no_order(lab):
    queue = lab.FreeKVCacheBlockQueue([lab.KVCacheBlock(block_id) for block_id in (7, 3, 9, 4)])
    see = check(lab.draw.queue, queue)
    see("blocks of a queue made of 7, 3, 9, 4", queue.block_ids(), equals=[7, 3, 9, 4])
    see("the same, taken one by one", drain(queue, 4), equals=[7, 3, 9, 4])


@concept("Ids may be far apart: what a queue costs does not grow with them.", invariant="I5")
@cases(made="FreeKVCacheBlockQueue", append="append_n", prepend="prepend_n")
def test_ids_that_are_far_apart(lab, case):
    # none between: to make so many places fails at once, and fills no memory
    ids = [10**6, 10**15, 2**63 - 1, 2**64]
    blocks = [lab.KVCacheBlock(block_id) for block_id in ids]
    queue = lab.FreeKVCacheBlockQueue(blocks if case == "FreeKVCacheBlockQueue" else [])
    see = check(lab.draw.queue, queue)
    if case != "FreeKVCacheBlockQueue":
        getattr(queue, case)(blocks)
    see(f"blocks after {case}()", queue.block_ids(), equals=ids)
    for block in blocks[::2]:
        queue.remove(block)
    see("blocks after every other one was removed", queue.block_ids(), equals=ids[1::2])
    see("the same, taken one by one", drain(queue, 2), equals=ids[1::2])


@concept("What a block holds, and how often, says nothing about the order.", invariant="I1")
@cases(append="append_n", prepend="prepend_n")
def test_content_is_no_order(lab, case):
    _, queue = make(lab, 0)
    blocks = [lab.KVCacheBlock(block_id) for block_id in range(4)]
    blocks[0].block_hash, blocks[2].block_hash, blocks[1].ref_cnt = "a", "b", 1
    see = check(lab.draw.queue, queue)
    getattr(queue, case)(blocks)
    what = f"blocks after {case}() of 0 to 3, where 0 and 2 have a name and 1 is held"
    see(what, queue.block_ids(), equals=[0, 1, 2, 3])


@concept("When an end leaves, the next one is the end, and an empty queue is filled again.", invariant="I2")
@cases(
    back=(3, [2], [50, 0, 1, 60]),
    front=(3, [0], [50, 1, 2, 60]),
    all=(2, [1, 0], [50, 60]),
    all_by_taking=(2, [], [50, 60]),
)
def test_the_ends(lab, case):
    count, leaving, expected = case
    for order in (("append_n", 60), ("prepend_n", 50)), (("prepend_n", 50), ("append_n", 60)):
        blocks, queue = make(lab, count)
        see = check(lab.draw.queue, queue)
        for i in leaving:
            queue.remove(blocks[i])
        if not leaving:
            queue.popleft_n(count)
        for call, block_id in order:
            getattr(queue, call)([lab.KVCacheBlock(block_id)])
        what = f"{leaving} were removed" if leaving else f"all {count} were taken"
        then = " and ".join(f"{call}([{block_id}])" for call, block_id in order)
        see(f"blocks after {what}, then {then}", queue.block_ids(), equals=expected)


@concept(
    "The blocks that stay know their new neighbours, whichever call brought them.", invariant="I2", illustrates=True
)
@cases(
    appended=("append", 60, [0, 1, 61]),
    old_back=("append", 1, [0, 60, 61]),
    prepended=("prepend", 61, [60, 0, 1]),
    old_front=("prepend", 0, [60, 61, 1]),
    after_taking=("take", 1, [2, 3]),
)
def test_remove_beside_a_seam(lab, case):
    call, leaving, expected = case
    blocks, queue = make(lab, 4 if call == "take" else 2)
    blocks = {block.block_id: block for block in [*blocks, lab.KVCacheBlock(60), lab.KVCacheBlock(61)]}
    see = check(lab.draw.queue, queue)
    if call == "append":
        queue.append_n([blocks[60], blocks[61]])
    elif call == "prepend":
        queue.prepend_n([blocks[60], blocks[61]])
    else:
        queue.popleft()
    queue.remove(blocks[leaving])
    see(f"blocks after {call} and remove(block {leaving})", queue.block_ids(), equals=expected)


@concept("The number of free blocks is right after every call.", invariant="I3", illustrates=True)
def test_the_number(lab):
    blocks, queue = make(lab, 6)
    see = check(lab.draw.queue, queue)
    see("number at the start", queue.num_free_blocks, equals=6)
    queue.popleft()
    see("number after popleft()", queue.num_free_blocks, equals=5)
    queue.popleft_n(2)
    see("number after popleft_n(2)", queue.num_free_blocks, equals=3)
    queue.remove(blocks[4])
    see("number after remove()", queue.num_free_blocks, equals=2)
    queue.append_n(blocks[1:3])
    see("number after append_n() of 2", queue.num_free_blocks, equals=4)
    queue.prepend_n(block for block in (blocks[0], blocks[4]))
    see("number after prepend_n() of 2 from a generator", queue.num_free_blocks, equals=6)


@concept("Two queues know nothing of each other.", invariant="I3", illustrates=True)
def test_two_queues(lab):
    _, one = make(lab, 2)
    see = check(lab.draw.queue, one)
    _, other = make(lab, 2, first=10)
    see("blocks of the first queue after a second one was made", one.block_ids(), equals=[0, 1])
    see("blocks of the second", other.block_ids(), equals=[10, 11])
    other.popleft()
    see("number of the first after the second gave one away", one.num_free_blocks, equals=2)


@concept("Too many asked for: ValueError, and not one block is taken.", invariant="I4")
@cases(one_too_many=(3, 4), from_empty=(0, 1), one_from_empty=(0, None))
def test_taking_too_many(lab, case):
    count, asked = case
    _, queue = make(lab, count)
    see = check(lab.draw.queue, queue)
    name = "popleft()" if asked is None else f"popleft_n({asked})"
    with raises(ValueError, f"{name} of a queue of {count} blocks"):
        queue.popleft() if asked is None else queue.popleft_n(asked)
    see("blocks after the refusal", queue.block_ids(), equals=list(range(count)))
    see("number after the refusal", queue.num_free_blocks, equals=count)


@concept("A block that is not in the queue cannot be removed: ValueError, and nothing changes.", invariant="I4")
@cases(
    taken="taken",
    taken_with_others="taken with others",
    taken_with_all="taken with all",
    taken_as_the_last="taken as the last",
    removed="removed",
    never_in="never in",
)
def test_removing_a_stranger(lab, case):
    blocks, queue = make(lab, 5)
    stranger = lab.KVCacheBlock(99)
    if case == "taken":
        stranger = queue.popleft()
    elif case == "taken with all":
        stranger = queue.popleft_n(5)[3]
    elif case == "taken as the last":
        stranger = [queue.popleft() for _ in range(5)][4]
    elif case == "taken with others":
        stranger = queue.popleft_n(3)[1]
    elif case == "removed":
        stranger = blocks[2]
        queue.remove(stranger)
    see = check(lab.draw.queue, queue)
    left = [i for i in queue.block_ids() if i != stranger.block_id]
    with raises(ValueError, f"remove() of block {stranger.block_id}, which was {case}; in the queue are {left}"):
        queue.remove(stranger)
    see("blocks after the refusal", queue.block_ids(), equals=left)
    see("number after the refusal", queue.num_free_blocks, equals=len(left))


@concept("A block that left may come back, at either end, and stands there only.", invariant="I2", illustrates=True)
def test_coming_back(lab):
    blocks, queue = make(lab, 4)
    see = check(lab.draw.queue, queue)
    queue.remove(blocks[1])
    queue.append_n([blocks[1]])
    see("blocks after 1 left the middle and came back at the back", queue.block_ids(), equals=[0, 2, 3, 1])
    queue.remove(blocks[3])
    queue.prepend_n([blocks[3]])
    see("blocks after 3 left and came back at the front", queue.block_ids(), equals=[3, 0, 2, 1])
    see("ids in the order taken", drain(queue, 4), equals=[3, 0, 2, 1])


def make_watched(lab, num_blocks):
    """Blocks that note when somebody looks at them, and the notes."""
    looked_at = set()

    class WatchedBlock(lab.KVCacheBlock):
        def __getattribute__(self, name):
            looked_at.add(id(self))
            return object.__getattribute__(self, name)

        def __eq__(self, other):
            looked_at.update((id(self), id(other)))
            return self is other

        def __hash__(self):
            return object.__hash__(self)

    return [WatchedBlock(i) for i in range(num_blocks)], looked_at


@concept(
    "No call walks the queue: it looks at the blocks it moves and at their neighbours.",
    invariant="I5",
    illustrates=True,
)
@cases(
    remove="remove",
    append="append_n",
    prepend="prepend_n",
    take="popleft_n",
    take_one="popleft",
    number="num_free_blocks",
)
def test_nobody_walks(lab, case):
    blocks, looked_at = make_watched(lab, 1000)
    new = blocks.pop()
    queue = lab.FreeKVCacheBlockQueue(blocks)
    calls = {
        "remove": lambda: queue.remove(blocks[500]),
        "append_n": lambda: queue.append_n([new]),
        "prepend_n": lambda: queue.prepend_n([new]),
        "popleft_n": lambda: queue.popleft_n(1),
        "popleft": lambda: queue.popleft(),
        "num_free_blocks": lambda: queue.num_free_blocks,
    }
    see = check(lab.draw.queue, queue)
    looked_at.clear()
    calls[case]()
    what = f"blocks that {case} looks at, of 999 (up to 5 are fine)"
    see(what, max(5, len(looked_at)), equals=5)


TOO_SLOW = "more", "at most 6 times as much"


def costs_the_same(much, little):
    """Whether much() takes no more than 6 times what little() does; milliseconds are never too much.

    Other work on this machine can only add to a time, so the least of some counts. A right queue stays below 2, a wrong
    one goes beyond 15 at one of the sizes. No number is shown, since at which size depends on the machine.
    """
    enough = 6 * min(processor_seconds(little) for _ in range(3)) + 0.03
    return any(processor_seconds(much) <= enough for _ in range(5))


def all_out_and_in(lab, blocks, count, times):
    """Make a queue of the first `count` blocks, take and put back all of them at once, and so on, `times` over."""
    for _ in range(times):
        queue = lab.FreeKVCacheBlockQueue(blocks[:count])
        queue.append_n(queue.popleft_n(count))
        queue.prepend_n(queue.popleft_n(count))
        queue.block_ids()
        queue.popleft_n(count)


@concept("All blocks are listed, and any number is moved at once, however many there are.", invariant="I3")
def test_a_long_list(lab):
    count = scaled(5_000)
    _, queue = make(lab, count)
    see = check()
    see(f"block_ids() of {count} blocks", queue.block_ids(), equals=list(range(count)))
    taken = queue.popleft_n(count - 1)
    see(f"what popleft_n({count - 1}) gives", [block.block_id for block in taken], equals=list(range(count - 1)))
    front, back = taken[: count // 2], taken[count // 2 :]
    queue.append_n(back)
    queue.prepend_n(front)
    expected = [block.block_id for block in front] + [count - 1] + [block.block_id for block in back]
    what = f"block_ids() after append_n() of {len(back)} blocks and prepend_n() of {len(front)}, one block between them"
    see(what, queue.block_ids(), equals=expected)
    see("the number of blocks", queue.num_free_blocks, equals=count)


@concept("The cost grows with the number of blocks moved, and not with its square.", invariant="I5")
def test_many_at_once(lab):
    blocks, see = [lab.KVCacheBlock(i) for i in range(scaled(60_000))], check()
    for count in (scaled(5_000), scaled(20_000), scaled(60_000)):
        as_fast = costs_the_same(
            partial(all_out_and_in, lab, blocks, count, 1),
            partial(all_out_and_in, lab, blocks, count // 100, 100),
        )
        see.true("processor time of many blocks, moved at once, beside that in 100 small queues", as_fast, *TOO_SLOW)


def from_the_middle(queue, blocks):
    """Each of the blocks, one by one, from the middle to the front, out, and in at the back."""
    for block in blocks:
        queue.remove(block)
        queue.prepend_n([block])
        queue.popleft()
        queue.append_n([block])


def from_the_ends(queue, blocks):
    """The last block out and in at the front, and out and in at the back."""
    for block in blocks[:1] * len(blocks):
        queue.remove(block)
        queue.prepend_n([block])
        queue.remove(block)
        queue.append_n([block])


def a_few_at_once(queue, blocks):
    """Three from the front to the back, and back to the front."""
    for _ in blocks:
        taken = queue.popleft_n(3)
        queue.append_n(taken)
        for block in taken:
            queue.remove(block)
        queue.prepend_n(taken)


def a_hundred_at_once(queue, blocks):
    """A hundred from the front to the back."""
    for _ in blocks[::100]:
        queue.append_n(queue.popleft_n(100))


def from_behind_a_hole(queue, blocks):
    """The first block leaves by its name, the next one as the first, and both go to the back."""
    for _ in blocks:
        first = queue.popleft()
        queue.prepend_n([first])
        queue.remove(first)
        queue.append_n([first, queue.popleft()])


def nothing(queue, blocks):
    """All that moves no block: nothing is taken or put in, and the number is read."""
    for _ in blocks:
        queue.popleft_n(0)
        queue.append_n([])
        queue.prepend_n([])
        assert queue.num_free_blocks


def refused(queue, blocks):
    """More than there are, and a block that is taken already."""
    taken, count = queue.popleft(), queue.num_free_blocks
    for _ in blocks:
        attempt(ValueError, queue.popleft_n, count + 1)
        attempt(ValueError, queue.remove, taken)
    queue.prepend_n([taken])


def in_short_queues(lab, work, count):
    """The same with so many blocks, in queues of 100 that are new each time: they have no past, either."""
    for _ in range(count // 100):
        blocks, queue = make(lab, 100)
        work(queue, blocks[::-1])


@concept("A call costs the same, however long the queue is.", invariant="I5")
@cases(
    from_the_middle=from_the_middle, from_the_ends=from_the_ends, a_few=a_few_at_once, a_hundred=a_hundred_at_once,
    behind_a_hole=from_behind_a_hole, nothing=nothing, refused=refused,
)  # fmt: skip
def test_a_long_queue(lab, case):
    see = check()
    what = {
        from_the_middle: "blocks that leave and come back",
        from_the_ends: "the last block, which leaves and comes back",
        a_few_at_once: "three blocks at once that leave and come back",
        a_hundred_at_once: "a hundred blocks at once, from the front to the back",
        from_behind_a_hole: "the first block, which is removed, and the next one, which is taken",
        nothing: "calls of nothing, and of the number",
        refused: "calls that are refused",
    }[case]
    # few moves first: the slowest queues are found before they take all the time there is
    steps = {
        from_the_middle: ((2_500, 500), (10_000, 2_000), (40_000, 8_000)),
        a_hundred_at_once: ((40_000, 20_000),),
    }
    for length, moves in steps.get(case, ((20_000, 30), (20_000, 300), (20_000, 1_500))):
        blocks, queue = make(lab, scaled(length))
        moving = blocks[: -1 - scaled(moves) : -1]
        as_fast = costs_the_same(partial(case, queue, moving), partial(in_short_queues, lab, case, len(moving)))
        see.true(f"processor time in a long queue, beside that in new ones of 100: {what}", as_fast, *TOO_SLOW)
        see("the number of blocks", queue.num_free_blocks, equals=scaled(length))


def plan_calls(rng):
    """A queue of some blocks, and calls in any order. Blocks have any order, as have those that are put in."""
    ids = rng.sample(range(40), rng.choice((1, 2, 3, 4, 6, 9, 40)))
    inside = ids[: rng.choice((0, 1, len(ids)))]
    outside = ids[len(inside) :]
    calls = [("FreeKVCacheBlockQueue", list(inside))]
    for _ in range(rng.randint(1, 25)):
        name = rng.choice(("popleft", "popleft_n", "popleft_n", "remove", "remove", "append_n", "prepend_n"))
        if name == "popleft":
            calls.append((name,))
            outside, inside = outside + inside[:1], inside[1:]
        elif name == "popleft_n":
            count = rng.choice((0, 1, 2, 3, len(inside), len(inside) + 1))
            calls.append((name, count))
            if count <= len(inside):
                outside, inside = outside + inside[:count], inside[count:]
        elif name == "remove":
            block_id = rng.choice(inside if inside and rng.random() < 0.8 else ids)
            calls.append((name, block_id))
            if block_id in inside:
                inside.remove(block_id)
                outside.append(block_id)
        else:
            new = rng.sample(outside, rng.randint(0, len(outside)))
            calls.append((name, new))
            outside = [i for i in outside if i not in new]
            inside = inside + new if name == "append_n" else new + inside
    return calls


def play_calls(lab, calls):
    """Blocks by their ids. One that is in already, in a walk that was cut short, is not put in a second time."""
    blocks = [lab.KVCacheBlock(i) for i in range(40)]
    for block in blocks[::2]:
        block.ref_cnt, block.block_hash = 1, "content"
    for name, *arguments in calls:
        if name == "FreeKVCacheBlockQueue":
            given = [blocks[i] for i in arguments[0]]
            queue = lab.FreeKVCacheBlockQueue(given)
            inside = set(arguments[0])
            given.clear()
        elif name in ("popleft", "popleft_n"):
            got = attempt(ValueError, getattr(queue, name), *arguments)
            taken = [] if got == "ValueError" else [got] if name == "popleft" else got
            inside -= {block.block_id for block in taken}
            yield "I4", f"whether {name} is refused", got == "ValueError"
            yield "I1", f"what {name} gives", [block.block_id for block in taken]
            taken.clear()
        elif name == "remove":
            block_id = arguments[0]
            refused = attempt(ValueError, queue.remove, blocks[block_id]) == "ValueError"
            yield "I4", f"whether remove() refuses block {block_id}", refused
            inside.discard(block_id)
        else:
            new = [blocks[i] for i in arguments[0] if i not in inside]
            inside |= set(arguments[0])
            getattr(queue, name)(new if len(new) % 2 else (block for block in new))
        yield "I2" if name == "remove" else "I1", "the ids in the queue", list(queue.block_ids())
        yield "I3", "num_free_blocks", queue.num_free_blocks


@concept("After any calls in any order, the queue is what they made of it.", invariant="I1", searches=True)
def test_any_calls(lab):
    walk(lab, plan_calls, play_calls, 200)
