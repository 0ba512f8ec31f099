"""Lab 02.4: room for tokens, what it costs, and how it is given back."""

from labkit import LabFailure, cases, check, concept, walk


def make(lab, tokens, name="a"):
    """A request; tokens is a text, each letter one token."""
    return lab.Request(name, [ord(letter) for letter in tokens], lab.SamplingParams(max_tokens=64))


RULES = {  # what may go wrong in what is given, and the rule that was broken then
    "is cached already": ("I4", "each block is published once"),
    "hits are for": ("I3", "hits come with a counter of 0"),
    "cannot take": ("I2", "None, if too few blocks are free"),
    "is not free": ("I3", "a hit that is held already stays where it is"),
    "more often": ("I5", "each block is given back once"),
    "out of range": ("I1", "the table has a block for every token that has slots"),
}


def rule_of(error):
    """The rule that an error out of given code stands for: its id, and what should have been."""
    told = [RULES[text] for text in RULES if text in str(error)]
    return told[0] if told else ("", "no error")


def allocate(kv, request, count, hits=()):
    """allocate_slots(); an error out of given code names the rule that was broken."""
    try:
        return kv.allocate_slots(request, count, hits)
    except (AssertionError, ValueError, IndexError) as error:
        law, expected = rule_of(error)
        what = f"allocate_slots({request.request_id}, {count}, {len(hits)} hits)"
        raise LabFailure(what, expected, f"{error!r}", invariant=law) from error


def admit(kv, request, count=None):
    """What a scheduler does: look up, allocate `count` tokens or all, move the counter to the hit. The new blocks."""
    hits, num_hit = kv.get_computed_blocks(request)
    new_blocks = allocate(kv, request, request.num_tokens - num_hit if count is None else count, hits)
    if new_blocks is not None:
        request.num_computed_tokens = num_hit
    return new_blocks


def finish(lab, kv, request, reason="FINISHED_LENGTH"):
    """All tokens are computed, and the request ends."""
    request.num_computed_tokens = request.num_tokens
    request.status = getattr(lab.RequestStatus, reason)
    kv.free(request)


def found(lab, kv, tokens):
    """How many of these tokens a new request finds; one more token is added, since the last is never found."""
    return kv.get_computed_blocks(make(lab, tokens + "!", name="probe"))[1]


def ids(blocks):
    return None if blocks is None else [block.block_id for block in blocks]


TEXT = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@concept("Tokens are rounded up to whole blocks.", invariant="I1")
@cases(
    of_1=(1, {1: 1, 2: 2}),
    of_3=(3, {1: 1, 2: 1, 3: 1, 4: 2, 6: 2, 7: 3}),
    of_4=(4, {3: 1, 4: 1, 5: 2, 8: 2}),
    of_16=(16, {15: 1, 16: 1, 17: 2, 32: 2, 33: 3}),
    of_20000=(20_000, {1: 1, 19_999: 1, 20_000: 1, 20_001: 2}),
)
def test_price_of_a_new_request(lab, case):
    size, expected = case
    kv = lab.KVCacheManager(50, size)
    see = check()
    for length, number in expected.items():
        got = kv.num_blocks_needed(make(lab, length * "x"), length)
        see(f"blocks needed for {length} tokens, block size {size}", got, equals=number)


@concept("What the table has is paid already, and the price is never below nothing.", invariant="I1", illustrates=True)
@cases(within=(5, 0), full=(6, 0), one_more=(7, 1), three_blocks_more=(15, 3), fewer=(1, 0))
def test_price_of_more_tokens(lab, case):
    num_tokens, expected = case
    kv, a = lab.KVCacheManager(8, 3), make(lab, TEXT[:15])
    admit(kv, a, 4)
    see = check(lab.draw.blocks, kv, "a")
    see(
        f"blocks needed for {num_tokens} tokens, 2 of 3 are in the table",
        kv.num_blocks_needed(a, num_tokens),
        equals=expected,
    )


@concept(
    "The sequence of hits that is given stays as it is, also when it is an empty list.",
    invariant="I3",
    illustrates=True,
)
def test_the_hits_stay_as_they_are(lab):
    kv, hits = lab.KVCacheManager(8, 2), []
    see = check(lab.draw.blocks, kv, "a")
    allocate(kv, make(lab, "abcde"), 3, hits)
    see("the empty list of hits, after slots for 3 tokens were given", ids(hits), equals=[])


@concept(
    "A hit that no request holds costs a free block; a hit that a request holds costs nothing.",
    invariant="I2",
    illustrates=True,
)
@cases(both_free=([], 4), first_held=([0], 3), second_held=([1], 3), both_held=([0, 1], 2))
def test_price_of_hits(lab, case):
    held, expected = case
    kv = lab.KVCacheManager(12, 2)
    a = make(lab, "abcd")
    admit(kv, a)
    finish(lab, kv, a)
    b = make(lab, "abcdefgh", name="b")
    see = check(lab.draw.blocks, kv, "b")
    for times in range(1, 21):
        kv.block_pool.touch([kv.block_pool.blocks[1 + i] for i in held])
        got = kv.num_blocks_needed(b, 8, kv.get_computed_blocks(b)[0])
        what = (
            f"blocks needed for 4 blocks of tokens, 1 and 2 are hits, held are {[1 + i for i in held]}, each by {times}"
        )
        see(what, got, equals=expected)


@concept(
    "The price is counted at each call: other requests take and free blocks meanwhile.",
    invariant="I2",
    illustrates=True,
)
def test_the_price_is_counted_afresh(lab):
    kv = lab.KVCacheManager(12, 2)
    a, other, b = make(lab, "abcd"), make(lab, "x", name="other"), make(lab, "abcdefgh", name="b")
    admit(kv, a)
    finish(lab, kv, a)
    admit(kv, other)
    hits, _ = kv.get_computed_blocks(b)
    see = check(lab.draw.blocks, kv, "other", "b")
    see("blocks needed for 8 tokens, with 2 free hits", kv.num_blocks_needed(b, 8, hits), equals=4)
    kv.block_pool.touch(hits[:1])
    kv.free(other)
    see("the same, after one hit was held, and a block of another request freed", kv.num_blocks_needed(b, 8, hits), 3)


@concept("The price names what leaves the queue, also if the tokens asked about end within the hits.", invariant="I2")
@cases(within_the_hits=(2, 2), at_their_end=(4, 2), one_more=(5, 3))
def test_price_within_the_hits(lab, case):
    num_tokens, expected = case
    kv = lab.KVCacheManager(12, 2)
    a = make(lab, "abcd")
    admit(kv, a)
    finish(lab, kv, a)
    b = make(lab, "abcdefgh", name="b")
    see = check(lab.draw.blocks, kv, "b")
    got = kv.num_blocks_needed(b, num_tokens, kv.get_computed_blocks(b)[0])
    see(f"blocks needed for {num_tokens} tokens, block size 2, with 2 free hits", got, equals=expected)


@concept(
    "To ask for the price changes nothing: a request that was only asked about has no table.",
    invariant="I2",
    illustrates=True,
)
def test_asking_changes_nothing(lab):
    kv, a = lab.KVCacheManager(8, 2), make(lab, "abcd")
    see = check(lab.draw.blocks, kv, "a")
    kv.num_blocks_needed(a, 4)
    see("free blocks", kv.free_block_ids(), equals=[1, 2, 3, 4, 5, 6, 7])
    see("whether the cache can be reset: nobody has a table", kv.reset_prefix_cache(), equals=True)


@concept("Slots for no tokens cost nothing, also when no block is free; a table of no blocks is none.", invariant="I1")
@cases(all_are_free=0, none_is_free=6)
def test_no_tokens(lab, case):
    kv, other, a = lab.KVCacheManager(4, 2), make(lab, "uvwxyz", name="other"), make(lab, "abcd")
    if case:
        admit(kv, other)
    see = check(lab.draw.blocks, kv, "a", "other")
    see("new blocks for 0 tokens", ids(allocate(kv, a, 0)), equals=[])
    if case:
        kv.free(other)
    see("whether the cache can be reset: nobody has a table", kv.reset_prefix_cache(), equals=True)


@concept(
    "A block is published once, with the slot of its last token, whichever call brought the block.",
    invariant="I4",
    illustrates=True,
)
@cases(
    at_once=([9], [8]),
    one_short=([3, 1, 1], [0, 4, 4]),
    across=([3, 3, 3], [0, 4, 8]),
    block_by_block=([4, 4, 1], [4, 8, 8]),
)
def test_publishing(lab, case):
    chunks, expected = case
    kv, a = lab.KVCacheManager(16, 4), make(lab, TEXT[: sum(chunks)])
    see = check(lab.draw.blocks, kv, "a")
    got = []
    for chunk in chunks:
        allocate(kv, a, chunk)
        a.num_computed_tokens += chunk
        got.append(found(lab, kv, TEXT[:12]))
    see(f"tokens that others find after the chunks {chunks}, block size 4", got, equals=expected)
    see("contents in the cache", kv.num_cached_blocks, equals=expected[-1] // 4)


@concept(
    "A request that grows token by token gets a block when one is full, and not sooner.",
    invariant="I1",
    illustrates=True,
)
@cases(of_1=1, of_3=3, of_4=4)
def test_growing(lab, case):
    kv, a = lab.KVCacheManager(16, case), make(lab, "a")
    for length in range(1, 3 * case + 2):
        see = check(lab.draw.blocks, kv, "a")
        new_blocks = ids(allocate(kv, a, 1))
        expected = [1 + (length - 1) // case] if (length - 1) % case == 0 else []
        see(f"new blocks for token {length}, block size {case}", new_blocks, equals=expected)
        see("the block table", kv.get_block_ids("a"), equals=list(range(1, 2 + (length - 1) // case)))
        a.num_computed_tokens = length
        a.append_output_token(ord("b") + length)


@concept("A prompt may come in chunks: each goes on where the last one ended.", invariant="I1", illustrates=True)
@cases(uneven=([5, 5, 2], [2, 1, 0]), into_the_gap=([2, 2, 3], [1, 0, 1]), whole_blocks=([4, 8], [1, 2]))
def test_chunks(lab, case):
    chunks, expected = case
    kv, a = lab.KVCacheManager(16, 4), make(lab, TEXT[: sum(chunks)])
    see = check(lab.draw.blocks, kv, "a")
    got = []
    for chunk in chunks:
        got.append(len(allocate(kv, a, chunk)))
        a.num_computed_tokens += chunk
    see(f"new blocks of the chunks {chunks}, block size 4", got, equals=expected)
    see("the block table", kv.get_block_ids("a"), equals=list(range(1, sum(expected) + 1)))


@concept("Slots that are there are given even if no block is free.", invariant="I2", illustrates=True)
def test_room_in_the_last_block(lab):
    kv, a = lab.KVCacheManager(3, 4), make(lab, "abcde")
    admit(kv, a)
    a.num_computed_tokens = 5
    a.append_output_token(ord("f"))
    see = check(lab.draw.blocks, kv, "a")
    see("free blocks", kv.num_free_blocks, equals=0)
    see("new blocks for the sixth token, in a block of 4 that has 1", ids(allocate(kv, a, 1)), equals=[])


@concept(
    "What fits exactly is given; one block too few gives None, and nothing has changed.",
    invariant="I2",
    illustrates=True,
)
@cases(fits=(6, [4, 2]), one_too_few=(7, None))
def test_all_or_nothing(lab, case):
    length, expected = case
    kv = lab.KVCacheManager(5, 3)
    held, old = make(lab, "xy", name="held"), make(lab, "ABC", name="old")
    admit(kv, held)
    admit(kv, old)
    admit(kv, make(lab, "DEF", name="other"))
    finish(lab, kv, old)
    a = make(lab, TEXT[:length])
    see = check(lab.draw.blocks, kv, "a")
    see("free blocks, front first", kv.free_block_ids(), equals=[4, 2])
    see(f"new blocks for {length} tokens, block size 3", ids(admit(kv, a)), equals=expected)
    if expected is None:
        see("tokens of ABC, in free block 2, that are found", found(lab, kv, "ABC"), equals=3)
        see("free blocks afterwards", kv.free_block_ids(), equals=[4, 2])
        see("the block table of a", kv.get_block_ids("a"), equals=[])


@concept(
    "What was published by others is not published again: only blocks behind the hits are.",
    invariant="I4",
    illustrates=True,
)
@cases(one_hit=("ab", 1), two_hits=("abcd", 2), no_hit=("x", 0))
def test_hits_are_published_already(lab, case):
    text, num_hits = case
    kv, a, b = lab.KVCacheManager(12, 2), make(lab, text), make(lab, "abcdefg", name="b")
    admit(kv, a)
    see = check(lab.draw.blocks, kv, "a", "b")
    admit(kv, b)
    names = [block.block_hash is not None for block in kv.block_pool.blocks[1:6]]
    new = [True] * (3 - num_hits) + [False] * 2
    first = [True] * num_hits if num_hits else [False]
    see(f"which of blocks 1 to 5 have a name, b has {num_hits} hits", names, equals=[*first, *new, False][:5])
    see("tokens of abcdef that are found", found(lab, kv, "abcdef"), equals=6)


@concept(
    "Free hits are part of the price: a request that fits with them is admitted, else no block is held.",
    invariant="I2",
    illustrates=True,
)
@cases(fits=("abcdefg", True), one_too_few=("abcdefghi", False))
def test_hits_that_are_free_take_room(lab, case):
    text, expected = case
    kv = lab.KVCacheManager(6, 2)
    a, other = make(lab, "abcd"), make(lab, "x", name="other")
    admit(kv, a)
    admit(kv, other)
    finish(lab, kv, a)
    b = make(lab, text, name="b")
    see = check(lab.draw.blocks, kv, "b", "other")
    got = admit(kv, b)
    see(f"whether there is room for {text}, 2 hits of 4 free blocks", got is not None, equals=expected)
    if not expected:
        see("counts of the hits", [block.ref_cnt for block in kv.block_pool.blocks[1:3]], equals=[0, 0])
        see("free blocks", kv.num_free_blocks, equals=4)


@concept(
    "All is given back, the head to be taken last, and the request holds no table any more.",
    invariant="I5",
    illustrates=True,
)
def test_free(lab):
    kv, a = lab.KVCacheManager(6, 2), make(lab, "abcdef")
    admit(kv, a)
    see = check(lab.draw.blocks, kv, "a")
    finish(lab, kv, a)
    see("the block table of a", kv.get_block_ids("a"), equals=[])
    see("free blocks, front first", kv.free_block_ids(), equals=[4, 5, 3, 2, 1])
    kv.free(a)
    see("free blocks after it was freed again", kv.num_free_blocks, equals=5)
    see("tokens of abcdef that are found", found(lab, kv, "abcdef"), equals=6)
    see("whether the cache can be reset: nobody holds a table", kv.reset_prefix_cache(), equals=True)


@concept("A hit is still what was found when the request has its slots.", invariant="I3")
def test_hits_stay_what_they_were(lab):
    kv = lab.KVCacheManager(5, 2)
    a, c = make(lab, "abcd"), make(lab, "wxyz", name="c")
    admit(kv, a)
    admit(kv, c)
    finish(lab, kv, a)
    finish(lab, kv, c)
    b = make(lab, "abcdXY", name="b")
    see = check(lab.draw.blocks, kv, "b")
    admit(kv, b)
    see("the block table of b; its hits, 1 and 2, were first in line", kv.get_block_ids("b"), equals=[1, 2, 4])
    see("tokens of abcd that are found now", found(lab, kv, "abcd"), equals=4)


@concept(
    "What was generated is published like the prompt, when slots for a block's last token are given.", invariant="I4"
)
def test_output_is_published(lab):
    kv, a = lab.KVCacheManager(16, 4), make(lab, "abcdef")
    admit(kv, a)
    a.num_computed_tokens = 6
    see = check(lab.draw.blocks, kv, "a")
    got = []
    for letter in TEXT[6:42]:
        a.append_output_token(ord(letter))
        allocate(kv, a, 1)
        a.num_computed_tokens += 1
        got.append(found(lab, kv, TEXT))
    expected = [length // 4 * 4 for length in range(7, 43)]
    see("tokens that others find after each of 36 output tokens, block size 4", got, equals=expected)


@concept(
    "Each block is published, also if another block has the same content: it answers when that one is gone.",
    invariant="I4",
)
def test_duplicates_are_published(lab):
    kv, a, b = lab.KVCacheManager(6, 2), make(lab, "ab"), make(lab, "ab", name="b")
    admit(kv, a)
    admit(kv, b)
    see = check(lab.draw.blocks, kv, "a", "b")
    finish(lab, kv, a)
    kv.block_pool.get_new_blocks(4)
    see("tokens of ab that are found; block 1 was taken, block 2 of b has them too", found(lab, kv, "ab"), equals=2)


@concept(
    "A name may be any value but None: blocks named 0, b'' and () are published like others, and withdrawn.",
    invariant="I4",
)
def test_names_that_look_like_nothing(lab):
    kv, a = lab.KVCacheManager(8, 2), make(lab, "abcdef")
    kv._block_hashes = lambda request: [0, b"", ()][: request.num_tokens // 2]
    see = check(lab.draw.blocks, kv, "a")
    for count in (2, 1, 2, 1):
        allocate(kv, a, count)
        a.num_computed_tokens += count
    see("names of the three blocks", [block.block_hash for block in kv.block_pool.blocks[1:4]], equals=[0, b"", ()])
    a.num_computed_tokens = 2
    kv.free(a)
    see(
        "names after a was preempted with 2 tokens computed",
        [block.block_hash for block in kv.block_pool.blocks[1:4]],
        equals=[0, None, None],
    )


@concept("A long prompt gets all its slots at once, and all its blocks are published.", invariant="I4")
def test_a_long_prompt(lab):
    kv, a, b = lab.KVCacheManager(2002, 2), make(lab, 800 * "abcde"), make(lab, 800 * "abcde" + "!", name="b")
    see = check(lab.draw.blocks, kv, "a")
    see("how many new blocks", len(admit(kv, a)), equals=2000)
    see("tokens that others find of 4000", found(lab, kv, 800 * "abcde"), equals=4000)
    finish(lab, kv, a)
    hits, _ = kv.get_computed_blocks(b)
    see("the price of 2000 free hits and a block more", kv.num_blocks_needed(b, 4001, hits), equals=2001)
    admit(kv, b)
    see("how many blocks b has", len(kv.get_block_ids("b")), equals=2001)


@concept("Tokens that are known and have no slots yet are not published.", invariant="I4")
def test_tokens_ahead_of_the_slots(lab):
    kv, a, b = lab.KVCacheManager(16, 2), make(lab, "abcd"), make(lab, "abcdefghijkl", name="b")
    admit(kv, a)
    see = check(lab.draw.blocks, kv, "a", "b")
    admit(kv, b, 3)
    see("tokens that others find, 4 hits and 3 more of 12 have slots", found(lab, kv, "abcdefghijkl"), equals=6)


@concept("A hit may be held without any new token: it is the table then.", invariant="I3")
def test_only_hits(lab):
    kv, a = lab.KVCacheManager(4, 2), make(lab, "abcd")
    admit(kv, a)
    finish(lab, kv, a)
    b = make(lab, "abcdef", name="b")
    see = check(lab.draw.blocks, kv, "b")
    hits, _ = kv.get_computed_blocks(b)
    see("new blocks for 0 tokens behind 2 hits", ids(allocate(kv, b, 0, hits)), equals=[])
    hits.clear()
    see("the block table of b, after the caller emptied the list of hits", kv.get_block_ids("b"), equals=[1, 2])
    see("free blocks", kv.free_block_ids(), equals=[3])


@concept(
    "Shared blocks stand first in the table and are held by both; only new ones are returned.",
    invariant="I3",
    illustrates=True,
)
def test_sharing(lab):
    kv = lab.KVCacheManager(8, 2)
    a, b = make(lab, "abcde"), make(lab, "abcdf", name="b")
    admit(kv, a)
    see = check(lab.draw.blocks, kv, "a", "b")
    new_blocks = ids(admit(kv, b))
    see("the block table of b", kv.get_block_ids("b"), equals=[1, 2, 4])
    see("new blocks of b", new_blocks, equals=[4])
    see("counts of blocks 1 to 4", [block.ref_cnt for block in kv.block_pool.blocks[1:5]], equals=[2, 2, 1, 1])
    a.num_computed_tokens = 5
    kv.free(a)
    see("counts after a is gone", [block.ref_cnt for block in kv.block_pool.blocks[1:5]], equals=[1, 1, 0, 1])


@concept(
    "Each hit counts by itself, held or free: behind the hits the table is new, as long as it must be.", invariant="I3"
)
@cases(both_free=[], first_held=[0], second_held=[1], both_held=[0, 1])
def test_hits_held_and_free(lab, case):
    kv = lab.KVCacheManager(12, 2)
    a = make(lab, "abcd")
    admit(kv, a)
    finish(lab, kv, a)
    kv.block_pool.touch([kv.block_pool.blocks[1 + i] for i in case])
    b = make(lab, "abcdefgh", name="b")
    see = check(lab.draw.blocks, kv, "b")
    admit(kv, b)
    what = f"the block table of b, 1 and 2 are hits, held are {[1 + i for i in case]}"
    see(what, kv.get_block_ids("b"), equals=[1, 2, 3, 4])
    see(
        "counts of blocks 1 to 4",
        [block.ref_cnt for block in kv.block_pool.blocks[1:5]],
        equals=[1 + (i in case) for i in range(4)],
    )


@concept("With prefix caching off there are slots, and nothing is published.", invariant="I4")
def test_caching_off(lab):
    kv, a = lab.KVCacheManager(31, 2, enable_prefix_caching=False), make(lab, TEXT)
    see = check(lab.draw.blocks, kv, "a")
    see("new blocks for 52 tokens, block size 2", ids(admit(kv, a)), equals=list(range(1, 27)))
    see("contents in the cache", kv.num_cached_blocks, equals=0)
    finish(lab, kv, a)
    see("free blocks when a is gone", kv.num_free_blocks, equals=30)
    see("whether the cache can be reset: nobody has a table", kv.reset_prefix_cache(), equals=True)


@concept("A refusal leaves no trace: no order, no count, no name, no table, no counter.", invariant="I2")
@cases(free_hits="abcdefghi", held_hits="stuvwxyz0123", running="running")
def test_a_refusal_leaves_no_trace(lab, case):
    kv = lab.KVCacheManager(8, 2)
    other, old, one = make(lab, "stuv", name="other"), make(lab, "abcdef", name="old"), make(lab, "12", name="one")
    admit(kv, other, 3)
    other.num_computed_tokens = 3
    for each in (old, one, make(lab, "3", name="two")):
        admit(kv, each)
    finish(lab, kv, old)
    finish(lab, kv, one)
    request, count = make(lab, case), None
    if case == "running":
        request, count = other, 13
        for letter in "wxyz" * 3:
            other.append_output_token(ord(letter))
    hits = [] if case == "running" else kv.get_computed_blocks(request)[0]
    count = request.num_tokens - 2 * len(hits) if count is None else count

    def trace():
        tables = {name: kv.get_block_ids(name) for name in kv._tables}
        counts = [block.ref_cnt for block in kv.block_pool.blocks]
        named = [block.block_id for block in kv.block_pool.blocks if block.block_hash is not None]
        counters = (request.num_computed_tokens, request.num_cached_tokens, request.num_tokens)
        return kv.free_block_ids(), tables, counts, named, counters

    see = check(lab.draw.blocks, kv, "other", "a")
    before = trace()
    got = ids(allocate(kv, request, count, hits))
    see(f"new blocks for {count} tokens, {len(hits)} hits, {kv.num_free_blocks} free blocks", got, equals=None)
    whats = ("free blocks, front first", "the tables", "counts of all blocks", "blocks that have a name", "counters")
    for what, now, then in zip(whats, trace(), before):
        see(f"{what}, after the refusal", now, equals=then)


@concept("A request is only read: its counters and its status are the scheduler's.", invariant="I1")
def test_the_request_is_only_read(lab):
    kv, a = lab.KVCacheManager(8, 2), make(lab, "abcd")
    admit(kv, a)
    finish(lab, kv, a)
    b = make(lab, "abcdef", name="b")
    see = check(lab.draw.blocks, kv, "b")
    hits, _ = kv.get_computed_blocks(b)
    allocate(kv, b, 2, hits)
    see("computed tokens of b, after it got slots behind 2 hits", b.num_computed_tokens, equals=0)
    see("cached tokens that b reports", b.num_cached_tokens, equals=0)
    b.num_computed_tokens = 5
    kv.free(b)
    see("computed tokens of b, after it was freed", b.num_computed_tokens, equals=5)
    see("the status of b", b.status, equals=lab.RequestStatus.WAITING)
    see("how often b says it was preempted", b.num_preemptions, equals=0)
    see("tokens of b", "".join(map(chr, b.all_token_ids)), equals="abcdef")
    see("names that b remembers", len(b.block_hashes), equals=3)
    c = make(lab, TEXT[:20], name="c")
    kv.get_computed_blocks(c)
    allocate(kv, c, 3)
    see("names that c remembers, 20 tokens, after it got slots for 3", len(c.block_hashes), equals=10)


@concept(
    "Lists belong to the caller: the hits that are given and the blocks that are returned are no table.", invariant="I3"
)
def test_lists_belong_to_the_caller(lab):
    kv, a = lab.KVCacheManager(8, 2), make(lab, "abcdefg")
    see = check(lab.draw.blocks, kv, "a", "b")
    table = []
    for count, new in (3, [1, 2]), (1, []), (1, [3]), (1, []), (0, []):
        new_blocks = allocate(kv, a, count)
        see(
            f"new blocks for {count} tokens more, after the caller emptied or filled each list before",
            ids(new_blocks),
            equals=new,
        )
        a.num_computed_tokens += count
        table += new
        new_blocks.clear()
        see("the block table of a, after the caller emptied the list", kv.get_block_ids("a"), equals=table)
        new_blocks += kv.block_pool.blocks[5:7]
        see("the block table of a, after the caller put blocks 5 and 6 in", kv.get_block_ids("a"), equals=table)
    c = make(lab, "vwxyz", name="c")
    first = allocate(kv, c, 5)
    allocate(kv, make(lab, "V", name="d"), 1)
    see("the list of new blocks, after the next ones came", ids(first), equals=[4, 5, 6])
    kv.free(c)
    see("the list of new blocks, after they were freed", ids(first), equals=[4, 5, 6])
    kv, a = lab.KVCacheManager(8, 2), make(lab, "abcde")
    see = check(lab.draw.blocks, kv, "a", "b")
    allocate(kv, a, 5)
    b = make(lab, "abcdef", name="b")
    hits, _ = kv.get_computed_blocks(b)
    allocate(kv, b, 2, hits)
    see("the list of hits, after slots were given", ids(hits), equals=[1, 2])
    hits.clear()
    see("the block table of b, after the caller emptied it", kv.get_block_ids("b"), equals=[1, 2, 4])


@concept("An id that comes again is another request: nothing of the former one is left.", invariant="I4")
@cases(finished="FINISHED_STOPPED", preempted="PREEMPTED")
def test_an_id_comes_again(lab, case):
    kv = lab.KVCacheManager(12, 2)
    for text in "abcdef", "uvwxyz", "ABCDEF":
        a = make(lab, text)
        admit(kv, a, 3)
        a.num_computed_tokens = 3
        see = check(lab.draw.blocks, kv, "a")
        allocate(kv, a, 3)
        a.num_computed_tokens = 6
        see(f"how many blocks hold {text}", len(kv.get_block_ids("a")), equals=3)
        see(f"tokens of {text} that are found", found(lab, kv, text), equals=6)
        a.status = getattr(lab.RequestStatus, case)
        kv.free(a)


@concept("Slots may be asked for guesses behind the known tokens: a block with one in it gets no name.", invariant="I4")
@cases(
    in_the_last_block=(4, 5, 2, 4),
    over_its_edge=(4, 7, 3, 4),
    blocks_of_guesses=(4, 5, 12, 4),
    of_1=(1, 3, 4, 3),
    behind_full_blocks=(3, 9, 1, 9),
)
def test_guesses(lab, case):
    size, num_known, num_guesses, expected = case
    kv, a = lab.KVCacheManager(24, size), make(lab, TEXT[:num_known])
    see = check(lab.draw.blocks, kv, "a")
    allocate(kv, a, num_known + num_guesses)
    what = f"{num_known} known tokens and {num_guesses} guesses, block size {size}"
    see(f"blocks in the table, of {what}", len(kv.get_block_ids("a")), equals=-(-(num_known + num_guesses) // size))
    see(f"tokens that are found, of {what}", found(lab, kv, TEXT), equals=expected)
    got = []
    for length in range(num_known, num_known + 2 * size):
        a.num_computed_tokens = length
        a.append_output_token(ord(TEXT[length]))
        allocate(kv, a, 1)
        got.append(found(lab, kv, TEXT))
    expected = [length // size * size for length in range(num_known + 1, num_known + 2 * size + 1)]
    see("tokens that are found after each further token; all guesses were wrong", got, equals=expected)


@concept("A block whose guesses were wrong is published when its tokens are known, also if there are guesses behind.",
         invariant="I4", illustrates=True)  # fmt: skip
def test_guesses_again(lab):
    kv, a = lab.KVCacheManager(24, 2), make(lab, TEXT[:1])
    see = check(lab.draw.blocks, kv, "a")
    allocate(kv, a, 4)
    for length in range(1, 6):
        a.num_computed_tokens = length
        a.append_output_token(ord(TEXT[length]))
        allocate(kv, a, 2)
        what = f"tokens that are found when {length + 1} are known, and slots for a guess behind them were asked for"
        see(what, found(lab, kv, TEXT), equals=(length + 1) // 2 * 2)


@concept(
    "What was left for later, since it held guesses, is forgotten when the request is freed.",
    invariant="I4",
    illustrates=True,
)
@cases(finished="FINISHED_STOPPED", preempted="PREEMPTED")
def test_an_id_comes_again_after_guesses(lab, case):
    """5 known tokens and 12 guesses, blocks of 4: of five blocks the first is published."""
    kv = lab.KVCacheManager(24, 4)
    for text in "abcde", "uvwxy", "ABCDE":
        a = make(lab, text)
        see = check(lab.draw.blocks, kv, "a")
        allocate(kv, a, 17)
        see(f"tokens of {text} that are found", found(lab, kv, text), equals=4)
        a.num_computed_tokens, a.status = 5, getattr(lab.RequestStatus, case)
        kv.free(a)
        see(f"the same, after a was freed as {case} with 5 tokens computed", found(lab, kv, text), equals=4)


@concept("Two managers know nothing of each other.", invariant="I4", illustrates=True)
def test_two_managers(lab):
    one, two = lab.KVCacheManager(8, 2), lab.KVCacheManager(8, 2)
    admit(one, make(lab, "abcd"))
    see = check(lab.draw.blocks, two, "a")
    admit(two, make(lab, "abcd"))
    see("the block table of a in the second", two.get_block_ids("a"), equals=[1, 2])
    see("tokens of abcd that are found in the second", found(lab, two, "abcd"), equals=4)


@concept("A request that holds nothing is left alone, before it was admitted and after it was freed.", invariant="I5")
@cases(never_admitted=False, freed_before=True)
def test_a_request_that_holds_nothing(lab, case):
    kv, a = lab.KVCacheManager(6, 2), make(lab, "abcdef")
    if case:
        admit(kv, a)
        finish(lab, kv, a)
    see = check(lab.draw.blocks, kv, "a")
    free = kv.free_block_ids()
    kv.free(a)
    see("free blocks after free() of a, which holds none", kv.free_block_ids(), equals=free)


@concept("What was promised and not written is not found; what was written, or will be, stays.", invariant="I5")
@cases(
    nothing_computed=(0, False, 0),
    inside_the_first=(3, False, 0),
    one_block=(4, False, 4),
    inside_the_second=(5, False, 4),
    two_blocks=(8, False, 8),
    finished_meanwhile=(4, True, 12),
)
def test_free_in_the_middle_of_a_step(lab, case):
    computed, is_finished, expected = case
    kv, a = lab.KVCacheManager(8, 4), make(lab, TEXT[:12])
    a.num_cached_tokens = 8  # the report of an earlier admission
    if computed:
        allocate(kv, a, computed)
        a.num_computed_tokens = computed
    allocate(kv, a, 12 - computed)
    if is_finished:
        a.status = lab.RequestStatus.FINISHED_LENGTH
    see = check(lab.draw.blocks, kv, "a")
    kv.free(a)
    how = "finished" if is_finished else "preempted"
    what = f"tokens found of 12 with slots and {computed} computed, {how} before the step ran, block size 4"
    see(what, found(lab, kv, TEXT[:12]), equals=expected)
    see("contents in the cache", kv.num_cached_blocks, equals=expected // 4)
    see("free blocks", kv.num_free_blocks, equals=7)


@concept("A finished request keeps its promises and an unfinished one does not, whatever the reason.", invariant="I5")
@cases(
    waiting=("WAITING", 4),
    running=("RUNNING", 4),
    preempted=("PREEMPTED", 4),
    stopped=("FINISHED_STOPPED", 12),
    length=("FINISHED_LENGTH", 12),
    aborted=("FINISHED_ABORTED", 12),
    error=("FINISHED_ERROR", 12),
)
def test_every_reason(lab, case):
    status, expected = case
    kv, a = lab.KVCacheManager(8, 4), make(lab, TEXT[:12])
    allocate(kv, a, 4)
    a.num_computed_tokens = 4
    allocate(kv, a, 8)
    a.status = getattr(lab.RequestStatus, status)
    see = check(lab.draw.blocks, kv, "a")
    kv.free(a)
    what = f"tokens found of 12 with slots and 4 computed, freed as {status}, block size 4"
    see(what, found(lab, kv, TEXT[:12]), equals=expected)


@concept("What was not written is not found, also while another request holds the block.", invariant="I5")
@cases(by_one="b", by_three="bcd")
def test_a_promise_that_is_shared(lab, case):
    kv, a = lab.KVCacheManager(12, 2), make(lab, "abcd")
    admit(kv, a)
    for name in case:
        admit(kv, make(lab, "abcdef", name=name))
    see = check(lab.draw.blocks, kv, "a", *case)
    kv.free(a)
    what = f"tokens of abcd that are found; what a was to write is shared by {' and '.join(case)}"
    see(what, found(lab, kv, "abcd"), equals=0)


@concept(
    "A block whose name was withdrawn gets none again: the request that shares it does not write it.", invariant="I4"
)
def test_a_withdrawn_name_does_not_come_back(lab):
    kv, a, b = lab.KVCacheManager(12, 2), make(lab, "abcd"), make(lab, "abcdefgh", name="b")
    admit(kv, a)
    admit(kv, b, 2)
    b.num_computed_tokens += 2
    see = check(lab.draw.blocks, kv, "a", "b")
    kv.free(a)
    allocate(kv, b, 2)
    see(
        "tokens of abcdefgh that are found; abcd was withdrawn, b has slots for all",
        found(lab, kv, "abcdefgh"),
        equals=0,
    )
    see("contents in the cache, those of ef and gh", kv.num_cached_blocks, equals=2)


@concept("However many blocks were promised and not written, none of them is found.", invariant="I5")
def test_a_long_promise(lab):
    kv, a = lab.KVCacheManager(1002, 2), make(lab, 400 * "abcde")
    allocate(kv, a, 5)
    a.num_computed_tokens = 5
    allocate(kv, a, 1995)
    see = check()
    see("contents in the cache, while a has slots for 2000 tokens, block size 2", kv.num_cached_blocks, equals=1000)
    kv.free(a)
    see("contents in the cache, after a was preempted with 5 tokens computed", kv.num_cached_blocks, equals=2)


@concept("Ids are told apart letter by letter: what is of one request is not of another.", invariant="I1")
@cases(capital="A", blank_before=" a", blank_behind="a ")
def test_ids_are_told_apart(lab, case):
    for freed, stays in ("a", case), (case, "a"):
        kv = lab.KVCacheManager(12, 2)
        pair = {name: make(lab, text, name) for name, text in (("a", "abcd"), (case, "uvwxyz"))}
        see = check(lab.draw.blocks, kv, "a", case)
        for name, request in pair.items():
            price = kv.num_blocks_needed(request, request.num_tokens)
            see(f"price of {request.num_tokens} tokens of {name!r}", price, equals=request.num_tokens // 2)
            admit(kv, request)
        see("the block tables of both", [kv.get_block_ids(name) for name in pair], equals=[[1, 2], [3, 4, 5]])
        finish(lab, kv, pair[freed])
        expected = [1, 2] if stays == "a" else [3, 4, 5]
        see(f"the block table of {stays!r} after {freed!r} is gone", kv.get_block_ids(stays), equals=expected)
        see(f"the block table of {freed!r}", kv.get_block_ids(freed), equals=[])


@concept("A block that was written is found, also if another one of its content was only promised.", invariant="I5")
def test_a_duplicate_that_was_written(lab):
    kv, a, b = lab.KVCacheManager(8, 2), make(lab, "ab"), make(lab, "ab", name="b")
    admit(kv, a)
    a.num_computed_tokens = 2
    admit(kv, b)
    see = check(lab.draw.blocks, kv, "a", "b")
    kv.free(b)
    see("tokens of ab that are found; a has written them, b has not", found(lab, kv, "ab"), equals=2)


def plan_steps(rng):
    """A manager, and requests that begin alike; ids come again."""
    block_size, begin = rng.choice((1, 2, 2, 3, 4)), "".join(rng.choices("ab", k=12))
    num_blocks = rng.choice((80, 4, 6, 8)) if block_size > 1 else rng.choice((80, 7, 10, 14))
    calls = [("KVCacheManager", num_blocks, block_size, rng.random() < 0.9)]
    alive = []
    for _ in range(rng.randint(5, 24)):
        name = rng.choice(("r", "r-1", "s", "t"))
        if name not in alive:
            text = begin[: rng.choice((2, 4, 6, 8, 12))] + "".join(rng.choices("ab", k=rng.randint(0, 2)))
            calls.append(("admit", name, text, rng.choice((0, 1, 3, 5, 20, 20))))
            alive.append(name)
            continue
        call = rng.choice(("grow", "grow", "grow", "step", "finish", "finish", "preempt"))
        if call == "grow":
            calls.append((call, name, rng.choice((1, 1, 2, 3, 20))))
        elif call == "step":
            calls.append((call,))
        else:
            alive.remove(name)
            reason = rng.choice(("STOPPED", "LENGTH", "ABORTED", "ERROR"))
            calls.append((call, name, reason) if call == "finish" else (call, name))
    return calls


def play_steps(lab, calls):
    """admit and grow: slots for so many tokens, at most what there is. step: they are computed.

    Where blocks are scarce, all is computed before a preemption: a block without a name may be at either end of
    the free queue. With 80 blocks ids are not looked at, so there a promise is withdrawn.
    """
    live, waiting, ahead, probes = {}, {}, {}, {}
    for call, *arguments in calls:
        name = arguments[0] if arguments else None
        new_blocks = hits = ()
        if call == "KVCacheManager":
            num_blocks, block_size, caching = arguments
            kv = lab.KVCacheManager(num_blocks, block_size, enable_prefix_caching=caching)
        elif call == "admit" and name not in live:
            request = waiting.get(name) or make(lab, arguments[1], name)
            hits, num_hit = kv.get_computed_blocks(request)
            count = min(arguments[2], request.num_tokens - num_hit)
            prices = [kv.num_blocks_needed(request, number, hits) for number in (1, num_hit + count)]
            what = f"price of the first 1 and the first {num_hit + count} tokens of {name}, {len(hits)} hits"
            yield "I2", what, prices, drawn(lab, kv, live)
        elif call == "grow" and name in live:
            request = live[name]
            request.num_computed_tokens += ahead.pop(name)
            ahead[name] = 0
            if request.num_computed_tokens == request.num_tokens:
                request.append_output_token(ord("ab"[request.num_tokens % 2]))
            count = min(arguments[1], request.num_tokens - request.num_computed_tokens)
        elif call == "step":
            for key, each in live.items():
                each.num_computed_tokens += ahead[key]
                ahead[key] = 0
        elif call in ("finish", "preempt") and name in live:
            request = live.pop(name)
            if call == "preempt" and num_blocks < 80:
                request.num_computed_tokens += ahead[name]
            request.status = getattr(lab.RequestStatus, f"FINISHED_{arguments[1]}" if call == "finish" else "PREEMPTED")
            kv.free(request)
            if call == "preempt":
                request.num_computed_tokens = 0
                waiting[name] = request
        else:
            continue
        if call in ("admit", "grow"):
            complaint, law = None, "I4"
            try:
                new_blocks = kv.allocate_slots(request, count, tuple(hits))
            except (AssertionError, ValueError, IndexError) as error:
                complaint, law = f"{rule_of(error)[1]}: {error!r}", rule_of(error)[0] or "I1"
            yield law, "the rule that given code finds broken", complaint, drawn(lab, kv, live)
            yield "I2", f"whether {count} tokens of {name} are refused", new_blocks is None, drawn(lab, kv, live)
            if new_blocks is not None:
                live[name] = request
                request.status = lab.RequestStatus.RUNNING
                waiting.pop(name, None)
                ahead[name] = count
                table = kv.get_block_ids(name)
                yield (
                    "I3",
                    f"whether the table of {name} begins with its hits",
                    table[: len(hits)] == ids(hits),
                    drawn(lab, kv, live),
                )
                if call == "admit":
                    yield (
                        "I1",
                        "the counter, which is the scheduler's",
                        request.num_computed_tokens,
                        drawn(lab, kv, live),
                    )
                    request.num_computed_tokens = num_hit
                    request.num_cached_tokens = request.num_cached_tokens or num_hit
                yield "I3", "how many new blocks", len(new_blocks), drawn(lab, kv, live)
                if num_blocks < 80:
                    yield "I3", "the new blocks", ids(new_blocks), drawn(lab, kv, live)
        yield from seen(lab, kv, live, waiting, call, probes)


def drawn(lab, kv, live):
    return lab.draw.blocks(kv, *live)


def seen(lab, kv, live, waiting, call, probes):
    """All that may be seen of a manager."""
    state = drawn(lab, kv, live)
    gone = "I5" if call in ("finish", "preempt") else "I4"
    yield "I1", "blocks in each table", {name: len(kv.get_block_ids(name)) for name in kv._tables}, state
    if len(kv.block_pool.blocks) < 80:
        yield "I1", "the tables", {name: kv.get_block_ids(name) for name in live}, state
        yield "I5" if gone == "I5" else "I2", "free blocks, front first", kv.free_block_ids(), state
        yield "I3", "counts of all blocks", [block.ref_cnt for block in kv.block_pool.blocks], state
    yield "I2", "the number of free blocks", kv.num_free_blocks, state
    for request in [*live.values(), *waiting.values()]:
        text = "".join(map(chr, request.all_token_ids))
        if text not in probes:
            probes[text] = make(lab, text + "!", name="probe")
        yield gone, f"tokens of {text} that are found", kv.get_computed_blocks(probes[text])[1], state
        counters = (request.num_computed_tokens, request.num_cached_tokens, request.status.name)
        yield "I1", f"counters and status of {request.request_id}, which only the scheduler changes", counters, state
    yield gone, "contents in the cache", kv.num_cached_blocks, state


@concept(
    "After any steps the tables, the prices and what is found are those that the calls make.",
    invariant="I1",
    searches=True,
)
def test_any_steps(lab):
    walk(lab, plan_steps, play_steps, 40)
