"""Many tiny examples: each sets up one situation and looks at one thing. Helpers to say it in a line, and no model."""

from labkit import check, raises


def make(lab, text, name="a", salt=None):
    return lab.Request(name, [ord(letter) for letter in text], lab.SamplingParams(max_tokens=64), cache_salt=salt)


def come(kv, request, count=None):
    """Looked up, given slots, computed; whether there was room."""
    hits, num_hit = kv.get_computed_blocks(request)
    count = request.num_tokens - num_hit if count is None else count
    if kv.allocate_slots(request, count, hits) is None:
        return False
    request.num_computed_tokens = num_hit + count
    return True


def more(kv, request, count):
    """Slots for the next tokens, which are computed."""
    new = kv.allocate_slots(request, count)
    if new is not None:
        request.num_computed_tokens += count
    return new


def finish(lab, kv, request):
    request.status = lab.RequestStatus.FINISHED_LENGTH
    kv.free(request)


def come_and_go(lab, kv, text, name="gone", salt=None):
    request = make(lab, text, name, salt)
    assert come(kv, request)
    finish(lab, kv, request)


def found(lab, kv, text, salt=None):
    return kv.get_computed_blocks(make(lab, text + "!", "probe", salt))[1]


def counts(kv):
    return [block.ref_cnt for block in kv.block_pool.blocks[1:]]


def nothing_is_held(kv):
    assert counts(kv) == [0] * kv.num_usable_blocks
    assert kv.num_free_blocks == kv.num_usable_blocks
    assert sorted(kv.free_block_ids()) == list(range(1, kv.num_usable_blocks + 1))


def test_a_block_that_is_not_full_comes_back_once(lab):
    kv = lab.KVCacheManager(5, 4)
    come_and_go(lab, kv, "abcdef")
    nothing_is_held(kv)


def test_a_hit_that_was_free_is_not_free_any_more(lab):
    kv = lab.KVCacheManager(6, 4)
    come_and_go(lab, kv, "abcd")
    come(kv, make(lab, "abcdef"))
    assert kv.num_free_blocks == len(kv.free_block_ids()) == 3


def test_two_share_and_both_go(lab):
    kv, a, b = lab.KVCacheManager(9, 4), make(lab, "abcdefghi"), make(lab, "abcdefghj", "b")
    come(kv, a)
    come(kv, b)
    assert kv.get_block_ids("a")[:2] == kv.get_block_ids("b")[:2]
    assert sorted(counts(kv)) == [0, 0, 0, 0, 1, 1, 2, 2]
    finish(lab, kv, a)
    assert sorted(counts(kv)) == [0, 0, 0, 0, 0, 1, 1, 1]
    finish(lab, kv, b)
    nothing_is_held(kv)


def test_how_many_blocks(lab):
    for size in (1, 3, 4, 10, 16):
        for length in range(1, 50):
            kv, a = lab.KVCacheManager(51, size), make(lab, "x" * length)
            come(kv, a)
            blocks = len(kv.get_block_ids("a"))
            assert blocks * size >= length > (blocks - 1) * size, f"{length} tokens in {blocks} blocks of {size}"


def test_the_next_chunk_fills_the_last_block(lab):
    kv, a = lab.KVCacheManager(9, 4), make(lab, "abcdefghijk")
    come(kv, a, 3)
    first = kv.get_block_ids("a")
    assert [len(more(kv, a, count)) for count in (5, 1, 2)] == [1, 1, 0]
    assert kv.get_block_ids("a")[:1] == first
    assert len(set(kv.get_block_ids("a"))) == 3


def test_room_in_the_last_block_costs_nothing(lab):
    kv, a = lab.KVCacheManager(3, 4), make(lab, "abcdefgh")
    come(kv, a, 5)
    assert kv.num_free_blocks == 0
    assert more(kv, a, 1) == []


def test_the_last_free_block_is_given(lab):
    kv = lab.KVCacheManager(4, 4)
    assert not come(kv, make(lab, "x" * 13))
    assert come(kv, make(lab, "x" * 12))


def test_a_held_hit_is_paid_by_its_holder(lab):
    """Of two hits the first is held and the second is free; with them, all the room there is."""
    kv = lab.KVCacheManager(5, 4)
    come(kv, make(lab, "abcd", "holder"))
    come_and_go(lab, kv, "abcdefgh")
    b = make(lab, "abcdefghijklmnop", "b")
    assert come(kv, b)
    assert len(set(kv.get_block_ids("b"))) == 4
    assert kv.num_free_blocks == 0


def test_free_hits_have_their_price(lab):
    kv = lab.KVCacheManager(5, 4)
    come_and_go(lab, kv, "abcdefgh")
    come(kv, make(lab, "z", "z"))
    assert not come(kv, make(lab, "abcdefghijklm"))
    assert come(kv, make(lab, "abcdefghijkl"))


def test_a_refusal_leaves_the_blocks_as_they_are(lab):
    kv = lab.KVCacheManager(5, 4)
    come_and_go(lab, kv, "abcdefgh")
    come_and_go(lab, kv, "ijklm")
    see = check(lab.draw.blocks, kv)
    free = kv.free_block_ids()
    see("whether 17 tokens fit into 4 blocks of 4", come(kv, make(lab, "abcdefghijklmnopq")), equals=False)
    see("free blocks, front first", kv.free_block_ids(), equals=free)
    see("counts", counts(kv), equals=[0, 0, 0, 0])
    see("tokens found", [found(lab, kv, text) for text in ("abcdefgh", "ijkl")], equals=[8, 4])


def test_the_pool_gives_all_or_nothing(lab):
    pool = lab.BlockPool(4)
    with raises(ValueError, "4 of 3 blocks"):
        pool.get_new_blocks(4)
    assert len(pool.get_new_blocks(3)) == 3


def test_a_beginning_that_differs(lab):
    for text in ("xbcdefgh", "abcdxfgh", "axcdefgh", "abcdefgx", "efghabcd"):
        kv = lab.KVCacheManager(20, 2)
        come_and_go(lab, kv, "abcdefgh")
        same = next((i for i in range(8) if text[i] != "abcdefgh"[i]), 8) // 2 * 2
        assert found(lab, kv, text) == same, text


def test_blocks_of_two_others_do_not_make_a_beginning(lab):
    kv = lab.KVCacheManager(20, 2)
    come_and_go(lab, kv, "abcdef")
    come_and_go(lab, kv, "abxygh")
    for text, expected in (("abcdgh", 4), ("abxyef", 4), ("abefcd", 2), ("xyabgh", 0)):
        assert found(lab, kv, text) == expected, text


def test_one_token_is_left(lab):
    for length in range(1, 10):
        kv, text = lab.KVCacheManager(20, 2), "abcdefghi"[:length]
        come_and_go(lab, kv, text)
        blocks, num_tokens = kv.get_computed_blocks(make(lab, text, "again"))
        assert len(blocks) * 2 == num_tokens
        assert length - 2 <= num_tokens < length


def test_a_salt_is_its_own_world(lab):
    for salt in (None, "", "s", "t"):
        kv = lab.KVCacheManager(20, 2)
        come_and_go(lab, kv, "abcd", salt=salt)
        assert [found(lab, kv, "abcd", other) for other in (None, "", "s", "t") if other != salt] == [0, 0, 0]
        assert found(lab, kv, "abcd", salt) == 4


def test_what_is_promised_to_a_preempted_request_is_not_found(lab):
    for computed in range(1, 8):
        kv, a = lab.KVCacheManager(20, 4), make(lab, "abcdefgh")
        come(kv, a, computed)
        kv.allocate_slots(a, 8 - computed)
        kv.free(a)
        assert found(lab, kv, "abcdefgh") == computed // 4 * 4, f"{computed} computed"
        nothing_is_held(kv)


def test_one_of_two_copies_is_enough(lab):
    kv = lab.KVCacheManager(4, 4)
    come_and_go(lab, kv, "abcd", "first")
    come_and_go(lab, kv, "abcd", "second")
    for taken, expected in ((2, 4), (1, 0)):
        kv.block_pool.get_new_blocks(taken)
        assert found(lab, kv, "abcd") == expected


def test_a_block_that_two_chunks_fill_is_found(lab):
    kv, a = lab.KVCacheManager(9, 4), make(lab, "abcdefgh")
    come(kv, a, 3)
    more(kv, a, 3)
    assert found(lab, kv, "abcdefgh") == 4
    more(kv, a, 2)
    assert found(lab, kv, "abcdefgh") == 8


def test_the_beginning_of_a_prompt_stays_longest(lab):
    for text in ("abcdefgh", "abcdefghi"):
        kv = lab.KVCacheManager(6, 4)
        come_and_go(lab, kv, text)
        got = []
        for _ in range(5):
            kv.block_pool.get_new_blocks(1)
            got.append(found(lab, kv, "abcdefgh"))
        assert got == [8, 8, 8, 4, 0], text
