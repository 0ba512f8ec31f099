"""Lab 06.4: blocks of main memory, by the names of their contents."""

from functools import partial
from itertools import count

from labkit import cases, check, concept, far, processor_seconds, raises, walk

NUMBERS = count()


def make(lab, num_blocks, names=""):
    """A tier with a ready block for each letter, held by nobody, the first one least recently used."""
    tier = lab.HostTier(num_blocks)
    for letter in names:
        block = tier.take(letter.encode())
        block.state = "ready"
        tier.release(block)
    return tier


def found(tier, names):
    """Of these names those that are here."""
    return "".join(letter for letter in names if tier.get(letter.encode()) is not None)


def picture(tier, names="abcdef"):
    blocks = [tier.get(letter.encode()) for letter in names]
    lines = [
        f"{str(each.name, 'ascii')}  block {each.cpu_block}, {each.state}, held {each.ref_cnt} times"
        for each in blocks
        if each
    ]
    return "\n".join([*lines, f"{tier.num_held_blocks} of {tier.num_blocks} blocks are held"])


@concept("A block has its name before its content has arrived, so that nobody fetches it twice.", invariant="I1",
         illustrates=True)  # fmt: skip
def test_taking(lab):
    tier = make(lab, 3)
    see = check(picture, tier)
    see("get() of what is not here", tier.get(b"a"), equals=None)
    blocks = [tier.take(name) for name in (b"a", b"b", b"c")]
    see("the numbers of the blocks, in order", sorted(block.cpu_block for block in blocks), equals=[0, 1, 2])
    see("state and count", [(block.state, block.ref_cnt) for block in blocks], equals=[("pending", 1)] * 3)
    see("whether get() finds the block", tier.get(b"b") is blocks[1], equals=True)
    see("held blocks", tier.num_held_blocks, equals=3)


@concept("What was used least recently gives way.", invariant="I2", illustrates=True)
def test_eviction(lab):
    tier = make(lab, 3, "abc")
    number = tier.get(b"a").cpu_block
    see = check(picture, tier)
    see("the number of the block of d", tier.take(b"d").cpu_block, equals=number)
    see("what is here", found(tier, "abcd"), equals="bcd")
    tier.take(b"e")
    see("what is here after one more", found(tier, "abcde"), equals="cde")


@concept("What is held stays, however old it is: a copy is at it.", invariant="I2")
def test_held_blocks_stay(lab):
    tier = make(lab, 3, "abc")
    see = check(picture, tier)
    tier.hold(tier.get(b"a"))
    tier.take(b"d")
    see("what is here when d has come", found(tier, "abcd"), equals="acd")
    tier.take(b"e")
    see("what is here when e has come", found(tier, "abcde"), equals="ade")
    see("take() while all blocks are held", tier.take(b"f"), equals=None)
    see("what is here then", found(tier, "abcdef"), equals="ade")


@concept("As many releases as holds, and the last one makes a block the most recently used.", invariant="I3")
def test_holding(lab):
    tier = make(lab, 3, "abc")
    block = tier.get(b"a")
    see = check(picture, tier)
    see("whether hold() returns the block", tier.hold(block) is block, equals=True)
    tier.hold(block)
    tier.release(block)
    see("held blocks after two holds and a release", tier.num_held_blocks, equals=1)
    tier.release(block)
    see("held blocks after two releases", tier.num_held_blocks, equals=0)
    tier.take(b"d")
    see("what is here when d has come", found(tier, "abcd"), equals="acd")
    with raises(AssertionError, "a block is released more often than it is held"):
        tier.release(block)
    see("how often it is held after the refusal", block.ref_cnt, equals=0)


@concept("A lookup that counts as a use moves a block to the end of the order.", invariant="I4")
def test_touching(lab):
    tier = make(lab, 3, "abc")
    see = check(picture, tier)
    tier.touch(tier.get(b"a"))
    see("held blocks", tier.num_held_blocks, equals=0)
    tier.take(b"d")
    see("what is here when d has come", found(tier, "abcd"), equals="acd")
    block = tier.hold(tier.get(b"c"))
    tier.touch(block)
    see("how often a held block is held when it is touched", block.ref_cnt, equals=1)


@concept("What may be spoilt is not found, and its number waits for the last copy.", invariant="I5")
def test_dropping(lab):
    tier = make(lab, 2, "ab")
    block = tier.hold(tier.get(b"a"))
    see = check(picture, tier)
    tier.drop(block)
    tier.drop(block)
    see("get()", tier.get(b"a"), equals=None)
    see("state and count", (block.state, block.ref_cnt), equals=("lost", 1))
    again = tier.take(b"a")
    see("the number of the same name, taken again", again.cpu_block, equals=1 - block.cpu_block)
    tier.drop(block)
    see("whether the new block is found, when the old one is dropped once more", tier.get(b"a") is again, equals=True)
    see("take() while a copy is at the old block", tier.take(b"c"), equals=None)
    tier.release(block)
    see("whether the new block is found, when the last copy has let go", tier.get(b"a") is again, equals=True)
    third = tier.take(b"c")
    see("the number of a block behind the last copy", third and third.cpu_block, equals=block.cpu_block)


@concept("A block that nobody holds is free as soon as it is dropped.", invariant="I6")
def test_dropping_what_nobody_holds(lab):
    tier = make(lab, 2, "ab")
    see = check(picture, tier)
    for letter in "ab":
        tier.drop(tier.get(letter.encode()))
    see("held blocks", tier.num_held_blocks, equals=0)
    blocks = [tier.take(name) for name in (b"c", b"d")]
    see("the numbers of two more, in order", sorted(block.cpu_block for block in blocks if block), equals=[0, 1])


@concept("A hit can be read now; what is on its way or on a disk cannot.", invariant="I7")
@cases(ready=(b"a", "HIT"), pending=(b"p", "HIT_PENDING"), on_the_disk=(b"d", "RETRY"), nowhere=(b"x", "MISS"),
       in_both=(b"b", "HIT"), on_its_way_from_the_disk=(b"q", "HIT_PENDING"))  # fmt: skip
def test_lookup(lab, case):
    name, expected = case
    tier = make(lab, 4, "ab")
    tier.take(b"p")
    tier.take(b"q")
    connector = lab.TierConnector(4, tier, lab.DiskTier([b"b", b"d", b"q"], 8))
    see = check(picture, tier, "abpq")
    see(f"lookup({name})", connector.lookup(name).name, equals=expected)
    see("held blocks", tier.num_held_blocks, equals=2)
    see("lookup() of what a tier without a disk has not", lab.TierConnector(4, tier).lookup(b"d").name, equals="MISS")
    tier.release(tier.get(b"p"))
    tier.take(b"z")
    see("what is here when one more block has come", found(tier, "abpqz"), equals="bpqz")


def in_a_tier(lab, num_blocks, work):
    """The least time of 300 turns in a tier that is full, or that has a block."""
    tier = lab.HostTier(num_blocks)
    for number in range(1 if work is take_one else num_blocks):
        tier.release(tier.take(b"%d" % number))
    return min(processor_seconds(partial(work, tier, num_blocks)) for _ in range(3))


def evict_one(tier, num_blocks):
    for _ in range(300):
        tier.release(tier.take(b"new %d" % next(NUMBERS)))


def hold_in_the_middle(tier, num_blocks):
    for number in range(300):
        block = tier.get(b"%d" % (300 + num_blocks // 3 + number % 100))
        if block is not None:
            tier.release(tier.hold(block))
            tier.touch(block)


def take_one(tier, num_blocks):
    for _ in range(300):
        tier.take(b"new %d" % next(NUMBERS))


@concept("A tier has a million blocks: no call looks at all of them.", invariant="I8")
@cases(evict=evict_one, hold=hold_in_the_middle, take=take_one)
def test_cost(lab, case):
    see, large = check(), far(300_000 if case is take_one else 10_000)
    enough = 8 * in_a_tier(lab, 1000, case) + 0.004
    is_steady = any(in_a_tier(lab, large, case) <= enough for _ in range(2))
    what = f"the processor's time of 300 turns in {large:,} blocks, beside 1,000"
    see.true(what, is_steady, "more", "at most 8 times as much")


def plan(rng):
    calls = [("HostTier", rng.randint(1, 4))]
    names = ("take", "take", "arrive", "hold", "release", "release", "touch", "drop")
    return calls + [(rng.choice(names), rng.choice("abcdef")) for _ in range(25)]


def play(lab, calls):
    tier, held = None, {}
    for name, argument in calls:
        if name == "HostTier":
            tier = lab.HostTier(argument)
            continue
        key = argument.encode()
        block = tier.get(key)
        if name == "take" and block is None:
            block = tier.take(key)
            if block is not None:
                held.setdefault(argument, []).append(block)
        elif name == "release":
            if held.get(argument):
                tier.release(held[argument].pop())
        elif block is not None:
            if name == "arrive":
                block.state = "ready"
            elif name == "hold":
                held.setdefault(argument, []).append(tier.hold(block))
            elif name in ("touch", "drop"):
                getattr(tier, name)(block)
        yield "I2", "what is here", found(tier, "abcdef"), picture(tier)
        yield "I6", "held blocks", tier.num_held_blocks, picture(tier)


@concept(
    "Whatever is taken, held and dropped: what is here is what the reference has.",
    invariant="I2",
    illustrates=True,
    searches=True,
)
def test_any_calls(lab):
    walk(lab, plan, play)
