"""Lab 01.6: who gets room in stretches and in blocks, and what the slots are good for."""

from labkit import cases, check, concept, far, walk


def stretched(lab, picture, arrival=""):
    """A memory from a picture: one character a slot, the digit of who holds it or "."; arrival: in which order."""
    memory = lab.ContiguousMemory(len(picture))
    for digit in arrival or sorted(set(picture) - {"."}):
        memory.stretches[int(digit)] = range(picture.index(digit), picture.rindex(digit) + 1)
    return memory


def paged(lab, num_slots, block_size, num_blocks):
    """A memory where these requests hold so many blocks."""
    memory = lab.PagedMemory(num_slots, block_size)
    memory.num_blocks.update(num_blocks)
    return memory


def slots(memory, mark=lambda request_id, number: str(request_id)):
    """One character a slot, blocks apart; mark(request_id, number): what stands for that slot of a request.

    A block lies anywhere; they are drawn in the order of arrival. "#" is a slot that two requests hold.
    """
    if hasattr(memory, "stretches"):
        row = ["."] * memory.num_slots
        for request_id, stretch in memory.stretches.items():
            for number, slot in enumerate(stretch):
                row += ["."] * (slot + 1 - len(row))
                row[slot] = mark(request_id, number) if row[slot] == "." else "#"
        return "".join(row)
    size = memory.block_size
    row = "".join(mark(each, i) for each, count in memory.num_blocks.items() for i in range(count * size))
    row = row.ljust(memory.num_slots, ".")
    return "|".join(row[i : i + size] for i in range(0, len(row), size))


def picture(memory):
    """The request that holds each slot."""
    if hasattr(memory, "stretches"):
        return f"slot  {''.join(str(i % 10) for i in range(memory.num_slots))}\nheld  {slots(memory)}"
    if memory.num_slots > 64:
        held = ", ".join(f"request {each} has {count}" for each, count in memory.num_blocks.items()) or "nobody has one"
        return f"{memory.num_slots // memory.block_size} blocks of {memory.block_size}; {held}"
    return f"blocks of {memory.block_size}  {slots(memory)}"


def moment(memory, jobs, written, refused):
    """The request that holds each slot, the written slots, and how long the requests will be."""
    marks = slots(memory, lambda request_id, number: "*" if number < written.get(request_id, 0) else "-")
    lengths = [f"request {each}: {written[each]} of {sum(jobs[each])} tokens are written" for each in written]
    waiting = "nobody waits" if refused is None else f"the next one was refused room for {refused} tokens"
    return "\n".join([f"held     {slots(memory)}", f"written  {marks}", *lengths[:4], waiting])


def ask(memory, request_id, num_tokens, equals, when=""):
    """One call of allocate(), its answer; then more about the same memory may be asked."""
    see = check(picture, memory)
    see(f"answer of allocate({request_id}, {num_tokens}){when}", memory.allocate(request_id, num_tokens), equals=equals)
    return see


def count(lab, memory, jobs, written, refused, equals):
    """One call of usage_of()."""
    see = check(moment, memory, jobs, written, refused)
    got = lab.usage_of(memory, jobs, written, refused)
    see("what the slots are good for", got, equals=lab.Usage(*equals))
    return see, got


@concept("A hole is what lies before, between and after the stretches; where two touch there is none.", invariant="I1")
@cases(
    nobody=("........", [range(0, 8)]),
    behind=("000.....", [range(3, 8)]),
    before=(".....000", [range(0, 5)]),
    around=("..0000..", [range(0, 2), range(6, 8)]),
    between=("0.11..22", [range(1, 2), range(4, 6)]),
    touching=("..0011..", [range(0, 2), range(6, 8)]),
    full=("00011112", []),
    no_slots=("", []),
)
def test_holes(lab, case):
    drawn, expected = case
    memory = stretched(lab, drawn)
    check(picture, memory)("holes()", memory.holes(), equals=expected)


@concept(
    "Holes are listed by address, in whatever order the requests came and whatever they are called.", invariant="I1"
)
@cases(
    came_in_another_order=(".00..11..2.", "201", [range(0, 1), range(3, 5), range(7, 9), range(10, 11)]),
    called_in_another_order=(".22..00..1.", "201", [range(0, 1), range(3, 5), range(7, 9), range(10, 11)]),
    the_last_came_first=(".2.1.0.", "012", [range(0, 1), range(2, 3), range(4, 5), range(6, 7)]),
)
def test_holes_by_address(lab, case):
    drawn, arrival, expected = case
    memory = stretched(lab, drawn, arrival)
    check(picture, memory)("holes()", memory.holes(), equals=expected)


@concept("A request that leaves makes one long hole with the holes on both sides.", invariant="I1")
def test_holes_join(lab):
    memory = stretched(lab, ".00.11.22.")
    for leaves, expected in [
        (None, [range(0, 1), range(3, 4), range(6, 7), range(9, 10)]),
        (1, [range(0, 1), range(3, 7), range(9, 10)]),
        (0, [range(0, 7), range(9, 10)]),
        (2, [range(0, 10)]),
    ]:
        see = check(picture, memory)
        if leaves is not None:
            memory.free(leaves)
        see("holes()" if leaves is None else f"holes() after free({leaves})", memory.holes(), equals=expected)


@concept("Holes follow from the stretches that are there now: two memories, or one that has changed.", invariant="I1")
def test_holes_are_counted_afresh(lab):
    memory, other = stretched(lab, "00..11.."), stretched(lab, "00..11......")
    see, first = check(picture, memory), memory.holes()
    see("holes()", first, equals=[range(2, 4), range(6, 8)])
    see("holes() of a longer memory with the same stretches", other.holes(), equals=[range(2, 4), range(6, 12)])
    memory.stretches[0] = range(2, 4)
    see("holes(), after request 0 left and came back", memory.holes(), equals=[range(0, 2), range(6, 8)])
    memory.holes().clear()
    see("holes(), after the caller emptied the list of the last call", memory.holes(), [range(0, 2), range(6, 8)])
    see("the list of the first call, which the caller kept", first, equals=[range(2, 4), range(6, 8)])
    one, again = memory.holes(), memory.holes()
    one.clear()
    see("the list of a second call, after the caller emptied that of the first", again, [range(0, 2), range(6, 8)])


@concept("A memory may have many slots and many requests; a hole far behind is one like the others.", invariant="I1")
def test_a_large_memory(lab):
    """2,000 requests of 2 slots, each with one free slot behind it; and one of a million slots at the end."""
    num_slots = far(1_100_000, 2_200_000)
    memory = lab.ContiguousMemory(num_slots)
    memory.stretches.update({i: range(3 * i, 3 * i + 2) for i in range(2000)})
    see = check(lambda: f"{num_slots:,} slots; request i of 2,000 holds slots 3 * i and 3 * i + 1")
    holes = memory.holes()
    see("number of holes", len(holes), equals=2000)
    see("the last but one, and the last", holes[-2:], equals=[range(5996, 5997), range(5999, num_slots)])
    see("answer of allocate(3000, 2)", memory.allocate(3000, 2), equals=True)
    see("where request 3000 lies", memory.stretches.get(3000), equals=range(5999, 6001))
    long = num_slots - 6004
    see(f"answer of allocate(70000, {long})", memory.allocate(70_000, long), equals=True)
    see("where request 70000 lies", memory.stretches.get(70_000), equals=range(6001, num_slots - 3))
    see("the last hole", memory.holes()[-1], equals=range(num_slots - 3, num_slots))


@concept(
    "A new request gets the front of the first hole that is long enough; each search begins at slot 0.", invariant="I2"
)
@cases(
    nobody_there=("......", [4], "0000.."),
    a_better_one_is_behind=("....0..1", [2], "22..0..1"),
    a_longer_one_is_behind=("...0....", [2], "11.0...."),
    too_short_is_skipped=("..0....1..", [3], "..0222.1.."),
    exactly_long_enough=("0..1....", [2], "0221...."),
    the_whole_memory=(".....", [5], "00000"),
    the_one_before_went_behind=("...0......", [4, 2], "22.01111.."),
)
def test_first_fit(lab, case):
    drawn, asks, expected = case
    memory = stretched(lab, drawn)
    for request_id, num_tokens in enumerate(asks, start=len(memory.stretches)):
        see = ask(memory, request_id, num_tokens, equals=True)
    see("who holds each slot now", slots(memory), equals=expected)


@concept("Enough slots in pieces that are too short are no room, and a refused request holds nothing.", invariant="I2")
@cases(
    pieces=("..0..1..", 3),
    holes_of_one=("0.1.2.3.", 2),
    one_short=("000....", 5),
    full=("0011", 1),
    longer_than_the_memory=("....", 5),
)
def test_no_room(lab, case):
    drawn, num_tokens = case
    memory = stretched(lab, drawn)
    others = sorted(memory.stretches)
    see = ask(memory, 7, num_tokens, equals=False)
    see("who holds each slot now", slots(memory), equals=drawn)
    see("requests that hold a stretch", sorted(memory.stretches), equals=others)


@concept("A stretch that was given back is room, also for a request that was refused before.", invariant="I2")
def test_room_again(lab):
    memory = stretched(lab, "000011..")
    ask(memory, 7, 4, equals=False)
    memory.free(0)
    see = ask(memory, 7, 4, equals=True, when=", which was refused before free(0)")
    see("who holds each slot now", slots(memory), equals="777711..")


@concept("A stretch cannot grow or move: its holder keeps it, and is refused what goes beyond its end.", invariant="I3")
@cases(
    less=("..000..11", 1, True),
    all_of_it=("..000..11", 3, True),
    nobody_is_beside_it=("..000..11", 4, False),
    a_longer_hole_is_there=("00.11......", 5, False),
    somebody_is_beside_it=("00011...", 4, False),
)
def test_who_holds_a_stretch(lab, case):
    drawn, num_tokens, expected = case
    memory = stretched(lab, drawn)
    see = ask(memory, 0, num_tokens, equals=expected)
    see("who holds each slot now", slots(memory), equals=drawn)


@concept("Tokens need whole blocks: a full one needs no other behind it, one token more does.", invariant="I4")
@cases(
    of_1=(1, {1: 1, 2: 2, 3: 3}),
    of_3=(3, {1: 3, 2: 3, 3: 3, 4: 6, 6: 6, 7: 9}),
    of_4=(4, {1: 4, 3: 4, 4: 4, 5: 8, 8: 8, 9: 12}),
    of_16=(16, {1: 16, 15: 16, 16: 16, 17: 32, 32: 32, 33: 48}),
    of_1024=(1024, {1: 1024, 1024: 1024, 1025: 2048, 3073: 4096}),
)
def test_whole_blocks(lab, case):
    block_size, held = case
    for num_tokens, expected in held.items():
        memory = paged(lab, 4 * block_size, block_size, {})
        see = ask(memory, 0, num_tokens, equals=True)
        see(f"slots held after allocate(0, {num_tokens})", memory.num_held(0), equals=expected)


@concept(
    "A request that grows gets the blocks that it lacks; one that asks for less than it has keeps all of them.",
    invariant="I4",
)
def test_growing_by_blocks(lab):
    memory = paged(lab, 40, 4, {1: 2})
    for num_tokens, expected in [(3, 4), (4, 4), (5, 8), (8, 8), (17, 20), (2, 20), (20, 20), (21, 24)]:
        see = ask(memory, 0, num_tokens, equals=True)
        see("slots that request 0 holds", memory.num_held(0), equals=expected)
    see("slots that request 1 holds", memory.num_held(1), equals=8)


@concept("What a request lacks must be free, not what it has in all; if it is not, nothing changes.", invariant="I4")
@cases(
    lacks_one_of_three=(12, {0: 2}, 0, 9, True, {0: 3}),
    lacks_none=(12, {0: 2, 1: 1}, 0, 5, True, {0: 2, 1: 1}),
    lacks_two_one_is_free=(16, {0: 2, 1: 1}, 0, 13, False, {0: 2, 1: 1}),
    all_blocks=(12, {}, 0, 12, True, {0: 3}),
    one_token_more=(12, {}, 0, 13, False, {}),
    stranger=(12, {0: 2, 1: 1}, 2, 1, False, {0: 2, 1: 1}),
    three_slots_are_no_block=(11, {0: 1}, 1, 5, False, {0: 1}),
)
def test_what_is_lacked(lab, case):
    num_slots, held, request_id, num_tokens, answer, expected = case
    memory = paged(lab, num_slots, 4, held)
    see = ask(memory, request_id, num_tokens, equals=answer)
    see("num_blocks", dict(memory.num_blocks), equals=expected)


@concept("A release is room for the next one, though allocate() is not told of it.", invariant="I4")
def test_a_release_is_room(lab):
    memory = paged(lab, 12, 4, {})
    ask(memory, 0, 8, equals=True)
    ask(memory, 1, 8, equals=False)
    memory.free(0)
    ask(memory, 1, 8, equals=True, when=", which was refused before free(0)")
    ask(memory, 2, 4, equals=True, when=" after it")


@concept("One request: what is written, what it will write later into slots that it has, and the rest.", invariant="I5")
@cases(
    longer_than_it_will_be=("000000000000....", (3, 4), 5, (5, 2, 5, 0, 4)),
    just_begun=("0000000000..", (3, 4), 3, (3, 4, 3, 0, 2)),
    exactly_as_long=("0000000.", (3, 4), 4, (4, 3, 0, 0, 1)),
    at_its_end=("00000000..", (3, 4), 7, (7, 0, 1, 0, 2)),
)
def test_one_stretch(lab, case):
    drawn, lengths, written, expected = case
    count(lab, stretched(lab, drawn), [lab.Job(*lengths)], {0: written}, None, expected)


@concept(
    "Reserved are slots, not tokens: of a last block what will be written; later tokens have no slot yet.",
    invariant="I5",
)
@cases(
    long_answer=(2, (5, 20), 5, (5, 3, 0, 0, 8)),
    short_answer=(2, (5, 1), 5, (5, 1, 2, 0, 8)),
    no_gap=(2, (8, 20), 8, (8, 0, 0, 0, 8)),
    block_too_many=(3, (5, 2), 5, (5, 2, 5, 0, 4)),
)
def test_a_last_block(lab, case):
    num_blocks, lengths, written, expected = case
    count(lab, paged(lab, 16, 4, {0: num_blocks}), [lab.Job(*lengths)], {0: written}, None, expected)


@concept("All that run are added up, each by its own lengths: an id is the place in jobs.", invariant="I5")
@cases(
    stretches=(None, (9, 7, 3, 0, 1)),
    blocks=({1: 2, 4: 2, 2: 2}, (9, 7, 8, 0, 4)),
)
def test_several(lab, case):
    num_blocks, expected = case
    memory = paged(lab, 28, 4, num_blocks) if num_blocks else stretched(lab, "11111.44444444222222")
    jobs = [lab.Job(*lengths) for lengths in [(9, 9), (2, 3), (1, 5), (9, 9), (3, 2)]]
    count(lab, memory, jobs, {1: 3, 4: 4, 2: 2}, None, expected)


@concept(
    "A request that has written nothing yet holds its slots all the same: they are reserved or wasted.", invariant="I5"
)
def test_nothing_is_written_yet(lab):
    count(lab, stretched(lab, "0000.."), [lab.Job(2, 1)], {0: 0}, None, (0, 3, 1, 0, 2))


@concept("None is a whole number, too.", invariant="I5", illustrates=True)
def test_a_full_memory(lab):
    see, got = count(lab, stretched(lab, "0000"), [lab.Job(2, 2)], {0: 2}, None, (2, 2, 0, 0, 0))
    see(f"the types of the numbers in {tuple(got)}", [type(number) for number in got], equals=[int] * 5)


@concept("The count is a Usage of whole numbers, and what it was made from stays as it was.", invariant="I5")
def test_counting_changes_nothing(lab):
    jobs, written, memory = [lab.Job(2, 1), lab.Job(3, 4)], {0: 2}, stretched(lab, "0000..")
    see, got = count(lab, memory, jobs, written, 1, (2, 1, 1, 2, 0))
    see.true("what the count returns", isinstance(got, lab.Usage), repr(type(got)), "a Usage")
    see(f"the types of the numbers in {tuple(got)}", [type(number) for number in got], equals=[int] * 5)
    see("written, after the count", written, equals={0: 2})
    see("jobs, after the count", jobs, equals=[lab.Job(2, 1), lab.Job(3, 4)])
    see("who holds each slot, after the count", slots(memory), equals="0000..")


@concept(
    "Slots that no request holds are stranded if they were enough for the refused one, and free if not.",
    invariant="I6",
    nearest=True,
)
@cases(
    nobody_waits=("0000....11..", None, (0, 6)),
    exactly_enough=("0000....11..", 6, (6, 0)),
    more_than_enough=("0000....11..", 5, (6, 0)),
    too_few=("0000....11..", 7, (0, 6)),
    none_left=("0000011", 2, (0, 0)),
    all_are_left=("........", 8, (8, 0)),
    all_are_too_few=("........", 9, (0, 8)),
)
def test_what_nobody_holds(lab, case):
    drawn, refused, expected = case
    memory, jobs, written = stretched(lab, drawn), [lab.Job(2, 1), lab.Job(1, 1)], {0: 2, 1: 1} if "0" in drawn else {}
    see = check(moment, memory, jobs, written, refused)
    got = lab.usage_of(memory, jobs, written, refused)
    see("stranded and free slots", (got.stranded, got.free), equals=expected)


@concept("No number of slots stands for anything: a memory may have millions.", invariant="I6", illustrates=True)
def test_millions_of_slots(lab):
    num_blocks = far(5_000, 50_000)
    memory = lab.PagedMemory(1000 * num_blocks, 1000)
    see = check(picture, memory)
    length = 3_000_001
    see(f"answer of allocate(0, {length})", memory.allocate(0, length), equals=True)
    jobs, left = [lab.Job(length, 7)], 1000 * num_blocks - 3_001_000
    for refused, expected in (None, (0, left)), (left, (left, 0)), (left + 1, (0, left)):
        got = lab.usage_of(memory, jobs, {0: length}, refused)
        see(f"used, reserved and wasted slots, refused is {refused}", got[:3], equals=(length, 7, 992))
        see(f"stranded and free slots, refused is {refused}", (got.stranded, got.free), equals=expected)


@concept("Any number of requests may hold slots, whatever their numbers.", invariant="I5", illustrates=True)
def test_many_requests(lab):
    """Request i holds two blocks of 4, has written 5 tokens, and will write a sixth."""
    number = far(2_100, 4_200)
    memory = lab.PagedMemory(8 * number + 80, 4)
    see = check(lambda: f"{number:,} requests hold two blocks of 4 each, and 20 blocks are left")
    for each in range(number):
        memory.num_blocks[each] = 2
    got = lab.usage_of(memory, [lab.Job(5, 1)] * number, dict.fromkeys(range(number), 5), None)
    see("what the slots are good for", got, equals=lab.Usage(5 * number, number, 2 * number, 0, 80))
    see(f"answer of allocate({number}, 80)", memory.allocate(number, 80), equals=True)
    see(f"answer of allocate({number + 1}, 1)", memory.allocate(number + 1, 1), equals=False)


@concept(
    "Each count starts afresh: holders, jobs and written slots may have changed since the last one.",
    invariant="I5",
)
def test_counts_are_made_afresh(lab):
    memory, jobs, written = paged(lab, 16, 4, {0: 1}), [lab.Job(2, 1), lab.Job(3, 4)], {0: 2}
    count(lab, memory, jobs, written, 13, (2, 1, 1, 0, 12))
    memory.num_blocks[0] = 2
    count(lab, memory, jobs, written, 13, (2, 1, 5, 0, 8))
    jobs[0] = lab.Job(2, 4)
    count(lab, memory, jobs, written, 13, (2, 4, 2, 0, 8))
    written[0] = 5
    count(lab, memory, jobs, written, 13, (5, 1, 2, 0, 8))
    count(lab, memory, jobs, written, 3, (5, 1, 2, 8, 0))


def power_of_two(length):
    """The smallest one that is not below length."""
    return 1 << (length - 1).bit_length()


def totals(usages):
    """Each kind of slot, added up over the steps."""
    return tuple(sum(column) for column in zip(*usages))


@concept(
    "The same requests in the same slots: what is not wasted is room for others, and all end sooner.",
    invariant="I6",
    illustrates=True,
)
@cases(
    stretches_of_12=(0, lambda job: 12, 13, (113, 39, 136, 0, 24)),
    stretches_of_a_power_of_two=(0, lambda job: power_of_two(job.num_tokens), 11, (113, 39, 24, 32, 56)),
    stretches_of_their_length=(0, lambda job: job.num_tokens, 9, (113, 39, 0, 26, 38)),
    blocks_of_4=(4, lambda job: job.prompt_len, 8, (118, 28, 10, 0, 36)),
)
def test_six_requests(lab, case):
    """24 slots. In blocks one request gives way when it has 5 tokens and writes them again: 5 more are used."""
    block_size, reserve, num_steps, expected = case
    jobs = [lab.Job(*lengths) for lengths in [(1, 3), (4, 2), (2, 3), (2, 5), (5, 3), (6, 2)]]
    memory = paged(lab, 24, block_size, {}) if block_size else lab.ContiguousMemory(24)
    see = check(lambda: "24 slots for (prompt, output): " + " ".join(f"({p}, {o})" for p, o in jobs))
    usages = lab.measure(memory, jobs, reserve)
    see("steps until all have ended", len(usages), equals=num_steps)
    see("(used, reserved, wasted, stranded, free) slots, added up over the steps", totals(usages), equals=expected)


@concept(
    "As in the paper: a token in fewer than 40 of 100 slots with one long stretch each, in more than 90 with blocks.",
    invariant="I6",
    illustrates=True,
)
@cases(
    stretches_of_256=(0, lambda job: 256, 738, (24, 6, 69, 0, 0)),
    stretches_of_a_power_of_two=(0, lambda job: power_of_two(job.num_tokens), 402, (46, 12, 25, 11, 3)),
    stretches_of_their_length=(0, lambda job: job.num_tokens, 303, (60, 16, 0, 21, 1)),
    blocks_of_4=(4, lambda job: job.prompt_len, 198, (94, 2, 0, 0, 3)),
)
def test_a_hundred_requests(lab, case):
    """1,024 slots; per cent, rounded down, over the first nine tenths of the steps, while requests wait."""
    block_size, reserve, num_steps, expected = case
    jobs = [lab.Job(4 + (37 * i % 100) ** 2 // 80, 8 + 53 * i % 40) for i in range(100)]
    memory = paged(lab, 1024, block_size, {}) if block_size else lab.ContiguousMemory(1024)
    see = check(lambda: "1,024 slots for 100 requests: prompts of 4 to 126 tokens, outputs of 8 to 47")
    usages = lab.measure(memory, jobs, reserve)
    busy = usages[: len(usages) * 9 // 10]
    shares = tuple(100 * total // (1024 * len(busy)) for total in totals(busy))
    see("steps until all have ended", len(usages), equals=num_steps)
    see("per cent of the slots that are used, reserved, wasted, stranded, free", shares, equals=expected)


def plan_calls(rng):
    """A memory, and calls: allocate() by id and tokens, free() of an id, and how far each request has written."""
    if rng.random() < 0.5:
        calls = [("ContiguousMemory", rng.choice((0, 1, 5, 12, 20)))]
    else:
        calls = [("PagedMemory", rng.choice((0, 3, 12, 20, 64)), rng.choice((1, 3, 4, 16)))]
    for _ in range(rng.randint(1, 25)):
        request_id = rng.randint(0, 4)
        name = rng.choice(("allocate", "allocate", "allocate", "free", "usage_of"))
        if name == "allocate":
            calls.append((name, request_id, rng.choice((1, 1, 2, 3, 4, 5, 8, 13, 17))))
        elif name == "free":
            calls.append((name, request_id))
        else:
            calls.append((name, rng.choice((None, 1, 2, 5, 9, 12, 20)), rng.randint(0, 9)))
    return calls


def play_calls(lab, calls):
    """usage_of(refused, share): each request that holds slots has written `share` tenths of what it can."""
    jobs = [lab.Job(1 + i, 3 * i % 5) for i in range(5)]
    for name, *arguments in calls:
        if name in ("ContiguousMemory", "PagedMemory"):
            memory = getattr(lab, name)(*arguments)
            yield "I1", "slots of the memory", memory.num_slots, picture(memory)
        elif name == "allocate":
            answer = memory.allocate(*arguments)
            law = "I2" if hasattr(memory, "stretches") else "I4"
            yield law, f"answer of allocate{tuple(arguments)}", answer, picture(memory)
        elif name == "free":
            if memory.num_held(arguments[0]):
                memory.free(arguments[0])
        else:
            refused, share = arguments
            held = {each: memory.num_held(each) for each in range(5) if memory.num_held(each)}
            written = {each: min(held[each], jobs[each].num_tokens) * share // 9 for each in reversed(held)}
            yield "I6", "what the slots are good for", lab.usage_of(memory, jobs, written, refused), picture(memory)
        if hasattr(memory, "stretches"):
            yield "I3", "who holds which stretch", sorted(memory.stretches.items(), key=str), picture(memory)
            yield "I1", "holes()", memory.holes(), picture(memory)
        else:
            yield "I4", "blocks of each request", sorted(memory.num_blocks.items()), picture(memory)


@concept("After any calls in any order, the memory is what they made of it.", invariant="I1", searches=True)
def test_any_calls(lab):
    walk(lab, plan_calls, play_calls, 60)
