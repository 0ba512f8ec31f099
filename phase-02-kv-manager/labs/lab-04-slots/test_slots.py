"""Lab 02.4: room for tokens, what it costs, and how it is given back."""

from labkit import cases, check, concept


def make(lab, tokens, name="a"):
    """A request; tokens is a text, each letter one token."""
    return lab.Request(name, [ord(letter) for letter in tokens], lab.SamplingParams(max_tokens=64))


def admit(kv, request, count=None):
    """What a scheduler does: look up, allocate `count` tokens or all, move the counter to the hit. The new blocks."""
    hits, num_hit = kv.get_computed_blocks(request)
    new_blocks = kv.allocate_slots(request, request.num_tokens - num_hit if count is None else count, hits)
    if new_blocks is not None:
        request.num_computed_tokens = num_hit
    return new_blocks


def finish(lab, kv, request):
    """All tokens are computed, and the request ends."""
    request.num_computed_tokens = request.num_tokens
    request.status = lab.RequestStatus.FINISHED_LENGTH
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
)
def test_price_of_a_new_request(lab, case):
    size, expected = case
    kv = lab.KVCacheManager(50, size)
    see = check()
    for length, number in expected.items():
        got = kv.num_blocks_needed(make(lab, TEXT[:length]), length)
        see(f"blocks needed for {length} tokens, block size {size}", got, equals=number)


@concept("What the table has is paid already, and the price is never below nothing.", invariant="I1")
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


@concept("A hit that nobody holds costs a free block, a hit that somebody holds costs nothing.", invariant="I2")
@cases(both_free=(0, 4), one_held=(1, 3), both_held=(2, 2))
def test_price_of_hits(lab, case):
    num_held, expected = case
    kv = lab.KVCacheManager(12, 2)
    a = make(lab, "abcd")
    admit(kv, a)
    finish(lab, kv, a)
    kv.block_pool.touch(kv.get_computed_blocks(make(lab, "abcd!"))[0][:num_held])
    b = make(lab, "abcdefgh", name="b")
    see = check(lab.draw.blocks, kv, "b")
    got = kv.num_blocks_needed(b, 8, kv.get_computed_blocks(b)[0])
    see(f"blocks needed for 4 blocks of tokens, 2 of them hits, {num_held} held", got, equals=expected)


@concept("A request that grows token by token gets a block when one is full, and not sooner.", invariant="I1")
@cases(of_1=1, of_3=3, of_4=4)
def test_growing(lab, case):
    kv, a = lab.KVCacheManager(16, case), make(lab, "a")
    for length in range(1, 3 * case + 2):
        see = check(lab.draw.blocks, kv, "a")
        new_blocks = ids(kv.allocate_slots(a, 1))
        expected = [1 + (length - 1) // case] if (length - 1) % case == 0 else []
        see(f"new blocks for token {length}, block size {case}", new_blocks, equals=expected)
        see("the block table", kv.get_block_ids("a"), equals=list(range(1, 2 + (length - 1) // case)))
        a.num_computed_tokens = length
        a.append_output_token(ord("b") + length)


@concept("A prompt may come in chunks: each goes on where the last one ended.", invariant="I1")
@cases(uneven=([5, 5, 2], [2, 1, 0]), into_the_gap=([2, 2, 3], [1, 0, 1]), whole_blocks=([4, 8], [1, 2]))
def test_chunks(lab, case):
    chunks, expected = case
    kv, a = lab.KVCacheManager(16, 4), make(lab, TEXT[: sum(chunks)])
    see = check(lab.draw.blocks, kv, "a")
    got = []
    for chunk in chunks:
        got.append(len(kv.allocate_slots(a, chunk)))
        a.num_computed_tokens += chunk
    see(f"new blocks of the chunks {chunks}, block size 4", got, equals=expected)
    see("the block table", kv.get_block_ids("a"), equals=list(range(1, sum(expected) + 1)))


@concept("Slots that are there are given even if no block is free.", invariant="I2")
def test_room_in_the_last_block(lab):
    kv, a = lab.KVCacheManager(3, 4), make(lab, "abcde")
    admit(kv, a)
    a.num_computed_tokens = 5
    a.append_output_token(ord("f"))
    see = check(lab.draw.blocks, kv, "a")
    see("free blocks", kv.num_free_blocks, equals=0)
    see("new blocks for the sixth token, in a block of 4 that has 1", ids(kv.allocate_slots(a, 1)), equals=[])


@concept("What fits exactly is given; one block too few gives None, and nothing has changed.", invariant="I2")
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
    "Free hits are part of the price: a request that fits with them is admitted, else nobody is held.", invariant="I2"
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
        kv.free(other)
        see("whether the cache can be reset: nobody holds a table", kv.reset_prefix_cache(), equals=True)


@concept(
    "Hits are held before fresh blocks are taken, or they would be evicted for the request itself.", invariant="I3"
)
def test_hits_are_held_first(lab):
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


@concept("Shared blocks stand first in the table and are held by both; only new ones are returned.", invariant="I3")
def test_sharing(lab):
    kv = lab.KVCacheManager(8, 2)
    a, b = make(lab, "abcde"), make(lab, "abcdfgh", name="b")
    admit(kv, a)
    see = check(lab.draw.blocks, kv, "a", "b")
    new_blocks = ids(admit(kv, b))
    see("the block table of b", kv.get_block_ids("b"), equals=[1, 2, 4, 5])
    see("new blocks of b", new_blocks, equals=[4, 5])
    see("counts of blocks 1 to 5", [block.ref_cnt for block in kv.block_pool.blocks[1:6]], equals=[2, 2, 1, 1, 1])
    a.num_computed_tokens = 5
    kv.free(a)
    see("counts after a is gone", [block.ref_cnt for block in kv.block_pool.blocks[1:6]], equals=[1, 1, 0, 1, 1])


@concept(
    "A block is published once, with the slot of its last token, whichever call brought the block.", invariant="I4"
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
        kv.allocate_slots(a, chunk)
        a.num_computed_tokens += chunk
        got.append(found(lab, kv, TEXT[:12]))
    see(f"tokens that others find after the chunks {chunks}, block size 4", got, equals=expected)
    see("contents in the cache", kv.num_cached_blocks, equals=expected[-1] // 4)


@concept("With prefix caching off there are slots, and nothing is published.", invariant="I4")
def test_caching_off(lab):
    kv, a = lab.KVCacheManager(8, 2, enable_prefix_caching=False), make(lab, "abcde")
    see = check(lab.draw.blocks, kv, "a")
    see("new blocks", ids(admit(kv, a)), equals=[1, 2, 3])
    see("contents in the cache", kv.num_cached_blocks, equals=0)


@concept("All is given back, the head to be taken last, and the request holds no table any more.", invariant="I5")
def test_free(lab):
    kv, a = lab.KVCacheManager(6, 2), make(lab, "abcdef")
    kv.free(a)
    admit(kv, a)
    see = check(lab.draw.blocks, kv, "a")
    finish(lab, kv, a)
    see("the block table of a", kv.get_block_ids("a"), equals=[])
    see("free blocks, front first", kv.free_block_ids(), equals=[4, 5, 3, 2, 1])
    kv.free(a)
    see("free blocks after it was freed again", kv.num_free_blocks, equals=5)
    see("tokens of abcdef that are found", found(lab, kv, "abcdef"), equals=6)
    see("whether the cache can be reset: nobody holds a table", kv.reset_prefix_cache(), equals=True)


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
    if computed:
        kv.allocate_slots(a, computed)
        a.num_computed_tokens = computed
    kv.allocate_slots(a, 12 - computed)
    if is_finished:
        a.status = lab.RequestStatus.FINISHED_LENGTH
    see = check(lab.draw.blocks, kv, "a")
    kv.free(a)
    how = "finished" if is_finished else "preempted"
    what = f"tokens found of 12 with slots and {computed} computed, {how} before the step ran, block size 4"
    see(what, found(lab, kv, TEXT[:12]), equals=expected)
    see("free blocks", kv.num_free_blocks, equals=7)
