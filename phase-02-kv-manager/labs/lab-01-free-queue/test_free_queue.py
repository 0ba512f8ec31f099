"""Lab 02.1: an order of free blocks that can be left from the middle."""

from labkit import attempt, cases, check, concept, raises, walk


def make(lab, num_blocks, first=0):
    """Blocks first, first + 1, ... and a queue of them."""
    blocks = [lab.KVCacheBlock(first + i) for i in range(num_blocks)]
    return blocks, lab.FreeKVCacheBlockQueue(blocks)


def drain(queue, count):
    """The ids of the next `count` blocks, taken one by one."""
    return [queue.popleft().block_id for _ in range(count)]


@concept("Blocks are taken from the front, in the order in which they came.", invariant="I1")
@cases(one=1, three=3, four=4, sixteen=16)
def test_first_come_first_taken(lab, case):
    blocks, queue = make(lab, case)
    see = check(lab.draw.queue, queue)
    taken = [queue.popleft() for _ in range(case)]
    see("ids in the order taken", [block.block_id for block in taken], equals=list(range(case)))
    see.true("what is taken are the very blocks that were put in", all(a is b for a, b in zip(taken, blocks)))


@concept("Several are taken at once from the front; the queue goes on where they ended.", invariant="I1")
@cases(none=(0, []), one=(1, [0]), three=(3, [0, 1, 2]), all=(5, [0, 1, 2, 3, 4]))
def test_taking_several(lab, case):
    count, expected = case
    _, queue = make(lab, 5)
    see = check(lab.draw.queue, queue)
    taken = queue.popleft_n(count)
    see(f"ids of popleft_n({count})", [block.block_id for block in taken], equals=expected)
    see("ids of the rest, taken one by one", drain(queue, 5 - count), equals=list(range(count, 5)))


@concept("What is appended is taken last, in the order given.", invariant="I1")
@cases(none=(2, 0, [0, 1]), two=(2, 2, [0, 1, 50, 51]), into_empty=(0, 3, [50, 51, 52]))
def test_append(lab, case):
    before, added, expected = case
    for kind in ("list", "generator"):
        _, queue = make(lab, before)
        see = check(lab.draw.queue, queue)
        new = [lab.KVCacheBlock(50 + i) for i in range(added)]
        queue.append_n(new if kind == "list" else (block for block in new))
        see(f"blocks after append_n() of a {kind} of {added} blocks", queue.block_ids(), equals=expected)
        see("the same, taken one by one", drain(queue, before + added), equals=expected)


@concept("What is prepended is taken next, in the order given.", invariant="I1")
@cases(none=(2, 0, [0, 1]), two=(2, 2, [50, 51, 0, 1]), into_empty=(0, 3, [50, 51, 52]))
def test_prepend(lab, case):
    before, added, expected = case
    for kind in ("list", "generator"):
        _, queue = make(lab, before)
        see = check(lab.draw.queue, queue)
        new = [lab.KVCacheBlock(50 + i) for i in range(added)]
        queue.prepend_n(new if kind == "list" else (block for block in new))
        see(f"blocks after prepend_n() of a {kind} of {added} blocks", queue.block_ids(), equals=expected)
        see("the same, taken one by one", drain(queue, before + added), equals=expected)


@concept("A block leaves from wherever it stands, and nobody else moves.", invariant="I2")
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


@concept("When an end leaves, the next one is the end, and an empty queue is filled again.", invariant="I2")
@cases(
    back=(3, [2], [50, 0, 1, 60]),
    front=(3, [0], [50, 1, 2, 60]),
    all=(2, [1, 0], [50, 60]),
    all_by_taking=(2, [], [50, 60]),
)
def test_the_ends(lab, case):
    count, leaving, expected = case
    blocks, queue = make(lab, count)
    see = check(lab.draw.queue, queue)
    for i in leaving:
        queue.remove(blocks[i])
    if not leaving:
        queue.popleft_n(count)
    queue.append_n([lab.KVCacheBlock(60)])
    queue.prepend_n([lab.KVCacheBlock(50)])
    what = f"{leaving} were removed" if leaving else f"all {count} were taken"
    see(f"blocks after {what}, 60 was appended and 50 prepended", queue.block_ids(), equals=expected)


@concept("The blocks that stay know their new neighbours, whichever call brought them.", invariant="I2")
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


@concept("The number of free blocks is right after every call.", invariant="I3")
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


@concept("Two queues know nothing of each other.", invariant="I3")
def test_two_queues(lab):
    _, one = make(lab, 2)
    see = check(lab.draw.queue, one)
    _, other = make(lab, 2, first=10)
    see("blocks of the first queue after a second one was made", one.block_ids(), equals=[0, 1])
    see("blocks of the second", other.block_ids(), equals=[10, 11])
    other.popleft()
    see("number of the first after the second gave one away", one.num_free_blocks, equals=2)


@concept("Too many asked for: ValueError, and not one block is taken.", invariant="I4")
@cases(one_too_many=(3, 4), from_empty=(0, 1))
def test_taking_too_many(lab, case):
    count, asked = case
    _, queue = make(lab, count)
    see = check(lab.draw.queue, queue)
    with raises(ValueError, f"{asked} blocks are asked for, {count} are free"):
        queue.popleft_n(asked)
    see("blocks after the refusal", queue.block_ids(), equals=list(range(count)))
    see("number after the refusal", queue.num_free_blocks, equals=count)


@concept("A block that is not in the queue cannot be removed: ValueError, and nothing changes.", invariant="I4")
@cases(taken="taken", taken_with_others="taken with others", removed="removed", never_in="never in")
def test_removing_a_stranger(lab, case):
    blocks, queue = make(lab, 5)
    stranger = lab.KVCacheBlock(99)
    if case == "taken":
        stranger = queue.popleft()
    elif case == "taken with others":
        stranger = queue.popleft_n(3)[1]
    elif case == "removed":
        stranger = blocks[2]
        queue.remove(stranger)
    see = check(lab.draw.queue, queue)
    left = {"taken": [1, 2, 3, 4], "taken with others": [3, 4], "removed": [0, 1, 3, 4], "never in": [0, 1, 2, 3, 4]}
    with raises(ValueError, f"remove() of a block that was {case}"):
        queue.remove(stranger)
    see("blocks after the refusal", queue.block_ids(), equals=left[case])
    see("number after the refusal", queue.num_free_blocks, equals=len(left[case]))


@concept("A block that left may come back, at either end, and stands there only.", invariant="I2")
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


@concept("Nobody walks the queue: a call looks at the blocks it moves and at their neighbours.", invariant="I5")
@cases(remove="remove", append="append_n", prepend="prepend_n", take="popleft_n", take_one="popleft")
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
    }
    see = check(lab.draw.queue, queue)
    looked_at.clear()
    calls[case]()
    what = f"blocks that {case}() looked at to move one, of 999 (up to 5 are fine)"
    see(what, max(5, len(looked_at)), equals=5)


@concept("A long queue is left from the back as fast as a short one.", invariant="I5")
def test_a_long_queue_is_left_one_by_one(lab):
    blocks, queue = make(lab, 60_000)
    see = check()
    for block in reversed(blocks):  # milliseconds if a removal costs the same every time, else much longer
        queue.remove(block)
    see("blocks left of 60000", queue.num_free_blocks, equals=0)


def plan_calls(rng):
    """Some blocks, and calls in any order. remove() has the id of a block, in the queue or not; the rest, how many."""
    num_blocks = rng.choice((0, 1, 2, 3, 5, 8))
    calls = [("FreeKVCacheBlockQueue", num_blocks)]
    for _ in range(rng.randint(1, 25)):
        name = rng.choice(("popleft", "popleft_n", "popleft_n", "remove", "remove", "append_n", "prepend_n"))
        if name == "popleft":
            calls.append((name,))
        elif name == "remove":
            calls.append((name, rng.randint(0, num_blocks)))
        else:
            calls.append((name, rng.choice((0, 0, 1, 1, 2, 3, 5))))
    return calls


def play_calls(lab, calls):
    """Who puts in n blocks puts in the first n of those that are out."""
    for name, *arguments in calls:
        if name == "FreeKVCacheBlockQueue":
            num_blocks = arguments[0]
            blocks, queue = make(lab, num_blocks)
            blocks.append(lab.KVCacheBlock(num_blocks))
            inside = set(range(num_blocks))
        elif name in ("popleft", "popleft_n"):
            taken = attempt(ValueError, getattr(queue, name), *arguments)
            if taken != "ValueError":
                taken = [block.block_id for block in ([taken] if name == "popleft" else taken)]
                inside -= set(taken)
            yield "I4" if taken == "ValueError" else "I1", f"what {name} gives", taken
        elif name == "remove":
            block_id = arguments[0]
            refused = attempt(ValueError, queue.remove, blocks[block_id]) == "ValueError"
            yield "I4", f"whether remove() refuses block {block_id}", refused
            inside.discard(block_id)
        else:
            new = [i for i in range(num_blocks) if i not in inside][: arguments[0]]
            getattr(queue, name)([blocks[i] for i in new])
            inside |= set(new)
        yield "I2" if name == "remove" else "I1", "the ids in the queue", list(queue.block_ids())
        yield "I3", "num_free_blocks", queue.num_free_blocks


@concept("After any calls in any order, the queue is what they made of it.", invariant="I1", searches=True)
def test_any_calls(lab):
    walk(lab, plan_calls, play_calls, 150)


@concept("The cost of taking grows with the number of blocks taken, and not with its square.", invariant="I5")
def test_many_at_once(lab):
    _, queue = make(lab, 60_000)
    see = check()
    taken = queue.popleft_n(60_000)  # milliseconds if each block is looked at once
    see("how many were taken of 60000", len(taken), equals=60_000)
