"""Lab 02.3: the name of a block, and the longest prefix that is found."""

from labkit import attempt, cases, check, concept, far, walk


def make(lab, tokens, name="a", salt=None):
    """A request; tokens is a list, or a text, each letter one token."""
    tokens = [ord(letter) for letter in tokens] if isinstance(tokens, str) else tokens
    return lab.Request(name, tokens, lab.SamplingParams(max_tokens=64), cache_salt=salt)


def publish(kv, request, count=None):
    """Cache the request's full blocks (the first `count`) under its names, held by nobody; their ids in order."""
    names = list(kv._block_hashes(request))[:count]
    blocks = kv.block_pool.get_new_blocks(len(names))
    for block, name in zip(blocks, names):
        kv.block_pool.cache_block(block, name)
    kv.block_pool.free_blocks(blocks)
    return blocks


def hit(kv, request):
    """The ids of the blocks that are found, and the number of tokens."""
    blocks, num_tokens = kv.get_computed_blocks(request)
    return [block and block.block_id for block in blocks], num_tokens


def picture(*requests):
    """What the requests hold, and the salt."""
    lines = []
    for request in requests:
        tokens = request.all_token_ids
        text = "".join(map(chr, tokens)) if 32 <= min(tokens) <= max(tokens) < 1000 else " ".join(map(str, tokens))
        salt = ascii(request.cache_salt)[:90]
        lines.append(f"{request.request_id}  {text if len(text) < 60 else text[:57] + '...'}  salt {salt}")
    return "\n".join(lines)


@concept("A block has a name when it is full, and not before.", invariant="I2")
@cases(
    of_1=(1, [1, 2, 3]),
    of_3=(3, [0, 0, 1, 1, 1, 2, 2, 2, 3]),
    of_4=(4, [0, 0, 0, 1, 1, 1, 1, 2, 2]),
    of_16=(16, [0] * 15 + [1] * 16 + [2] * 2),
)
def test_only_full_blocks_have_names(lab, case):
    size, expected = case
    for length, number in enumerate(expected, start=1):
        request = make(lab, "x" * length)
        see = check(picture, request)
        got = len(lab.KVCacheManager(4, size)._block_hashes(request))
        see(f"names of {length} tokens, block size {size}", got, equals=number)


@concept("Equal prefixes have equal names, whichever request asks.", invariant="I1", illustrates=True)
@cases(exact="exact", sha256="sha256")
def test_equal_prefixes_have_equal_names(lab, case):
    kv = lab.KVCacheManager(8, 3, hash_function=case)
    a, b = make(lab, "abcdefg"), make(lab, "abcdefxyz", name="b")
    see = check(picture, a, b)
    ours, theirs = kv._block_hashes(a), kv._block_hashes(b)
    see("blocks of equal prefix whose names are equal", [x == y for x, y in zip(ours, theirs)], equals=[True, True])


MANY = far(5_000, 50_000)


@concept("Requests with different salts never share, and those with the same salt do.", invariant="I1")
@cases(
    same=("tenant", "tenant", True),
    other=("tenant", "other", False),
    one_without=("tenant", None, False),
    empty_is_a_salt=("", None, False),
    word_none=("None", None, False),
    blank=("tenant ", "tenant", False),
    capital=("Tenant", "tenant", False),
    equal_beginning=(MANY * "x" + "1", MANY * "x" + "2", False),
    accent_apart=("\u00e9", "e\u0301", False),
)
def test_salt(lab, case):
    ours, theirs, expected = case
    for hash_function in ("exact", "sha256"):
        kv = lab.KVCacheManager(8, 2, hash_function=hash_function)
        a, b = make(lab, "abcd", salt=ours), make(lab, "abcd", name="b", salt=theirs)
        see = check(picture, a, b)
        same = [x == y for x, y in zip(kv._block_hashes(a), kv._block_hashes(b))]
        see("blocks of a and b whose names are equal", same, equals=[expected, expected])


@concept("Only tokens and salt are in a name: nothing else about a request is.", invariant="I1")
@cases(
    priority={"priority": 3},
    arrival={"arrival_time": 9.0},
    choice={"choice_index": 2},
    length={"max_model_len": 5},
    ends={"eos_token_ids": [98]},
)
def test_nothing_else_is_in_a_name(lab, case):
    kv, tokens = lab.KVCacheManager(8, 2), [97, 98, 99, 100]
    a = lab.Request("a", tokens, lab.SamplingParams(max_tokens=64), cache_salt="tenant")
    b = lab.Request("b", tokens, lab.SamplingParams(max_tokens=7), cache_salt="tenant", **case)
    see = check(picture, a, b)
    same = [x == y for x, y in zip(kv._block_hashes(a), kv._block_hashes(b))]
    see(f"blocks of a, and of b with {case}, whose names are equal", same, equals=[True, True])
    other = kv._block_hashes(lab.Request("c", tokens, lab.SamplingParams(), **case))
    see("whether a salt counts for such a request", bool(other[0] != kv._block_hashes(b)[0]), equals=True)


@concept("A name covers everything before the block, as far back as it goes.", invariant="I1", illustrates=True)
@cases(
    same_block_elsewhere=("xyab", "abxy", 1, 0),
    other_block_before=("abxy", "cdxy", 1, 1),
    other_block_between=("abxycd", "abzycd", 2, 2),
    other_block_far_before=("abxycd", "zbxycd", 2, 2),
    repeated=("ababab", "ababab", 2, 0),
    other_order=("abxy", "baxy", 0, 0),
)
def test_names_are_chained(lab, case):
    ours, theirs, i, j = case
    for hash_function in ("exact", "sha256"):
        kv = lab.KVCacheManager(8, 2, hash_function=hash_function)
        a, b = make(lab, ours), make(lab, theirs, name="b")
        see = check(picture, a, b)
        same = kv._block_hashes(a)[i] == kv._block_hashes(b)[j]
        see(f"block {i} of a and block {j} of b have the same name", bool(same), equals=False)


@concept("Different tokens give different names, also where a shorter form of them would be equal.", invariant="I1")
@cases(
    equal_last_byte=([97, 98], [97 + 256, 98]),
    equal_last_two_bytes=([97, 98], [97 + 65536, 98]),
    equal_last_four_bytes=([97, 98], [97 + 2**32, 98]),
    equal_digits=([1, 23], [12, 3]),
    equal_sum=([97, 98], [98, 97]),
    equal_hash_of_an_int=([5, 98], [5 + 2**61 - 1, 98]),
    equal_hash_below_0=([5, -1], [5, -2]),
    equal_but_for_the_last=([7] * MANY + [1], [7] * MANY + [2]),
    equal_but_for_the_middle=([7] * MANY + [1] + [7] * MANY, [7] * MANY + [2] + [7] * MANY),
)
def test_tokens_count_whole(lab, case):
    for hash_function in ("exact", "sha256"):
        kv = lab.KVCacheManager(8, len(case[0]), hash_function=hash_function)
        a, b = make(lab, case[0]), make(lab, case[1], name="b")
        see = check(picture, a, b)
        same = kv._block_hashes(a)[0] == kv._block_hashes(b)[0]
        see(f"whether a and b, of one block of {len(case[0])}, have the same name", bool(same), equals=False)


@concept("Token 0 is a token: a block of zeros is full, has a name and is found.", invariant="I2")
def test_token_0(lab):
    kv, a, b = lab.KVCacheManager(8, 2), make(lab, [0] * 5), make(lab, [0] * 5, name="b")
    see = check(picture, a, b)
    see("names of a, block size 2", len(kv._block_hashes(a)), equals=2)
    publish(kv, a)
    see("blocks and tokens that b finds", hit(kv, b), equals=([1, 2], 4))


@concept("Where a token 0 stands counts: it is no padding and no hole.", invariant="I1", illustrates=True)
@cases(
    at_a_beginning=([5, 0, 7, 8, 9], [0, 5, 7, 8, 9], 0),
    behind_one_that_ends_in_it=([5, 0, 0, 8, 9], [5, 0, 8, 0, 9], 2),
    at_both_ends=([0, 5, 5, 0, 9], [0, 5, 0, 5, 9], 2),
    all_but_one=([0, 0, 0, 5, 9], [0, 0, 5, 0, 9], 2),
    of_the_first=([0, 7, 8, 9, 1], [7, 0, 8, 9, 1], 0),
    minus_1=([5, -1, 7, 8, 9], [-1, 5, 7, 8, 9], 0),
    true_is_1=([1, 0, 7, 8, 9], [0, 1, 7, 8, 9], 0),
    equal=([0, 5, 0, 7, 9], [0, 5, 0, 7, 1], 4),
)
def test_holes(lab, case):
    ours, theirs, num_found = case
    for hash_function in ("exact", "sha256"):
        kv = lab.KVCacheManager(8, 2, hash_function=hash_function)
        a, b = make(lab, ours), make(lab, theirs, name="b")
        see = check(picture, a, b)
        publish(kv, a)
        see(f"tokens that b finds, block size 2, hash function {hash_function}", hit(kv, b)[1], equals=num_found)


@concept("A name is made of the name before it and of the tokens of its own block, no others.", invariant="I2")
@cases(exact="exact", sha256="sha256", numbers="numbers from 0", truths="False, then True")
def test_what_a_name_is_made_of(lab, case):
    kv = lab.KVCacheManager(8, 2, hash_function=case if case == "exact" else "sha256")
    calls, made, make_name = [], [], kv._hash_block
    if case == "numbers from 0":
        make_name = lambda *_: len(made)  # noqa: E731
    elif case == "False, then True":
        make_name = lambda *_: bool(made)  # noqa: E731

    def noting(parent, token_ids, cache_salt):
        calls.append((parent, token_ids, cache_salt))
        made.append(make_name(parent, token_ids, cache_salt))
        return made[-1]

    kv._hash_block = noting
    a = make(lab, [1, 2, 3, 4, 5, 6, 7], salt="tenant")
    see = check(picture, a)
    names = kv._block_hashes(a)
    see(
        f"tokens that _hash_block of this manager, {case}, was called with",
        [call[1] for call in calls],
        equals=[(1, 2), (3, 4), (5, 6)],
    )
    see("the salt of the first call", calls[0][2], equals="tenant")
    parents = [parent is name for (parent, _, _), name in zip(calls, [None, *made])]
    see("whether the parent is the name before, None for the first", parents, equals=[True, True, True])
    see("whether the names are what _hash_block gave", [x is y for x, y in zip(names, made)], equals=[True] * 3)


@concept("Names belong to one request: an id that is used again, or its place in memory, says nothing.", invariant="I1")
@cases(same_id="a", other_id="b")
def test_an_id_is_used_again(lab, case):
    kv = lab.KVCacheManager(8, 2)
    for letter in "abcdefgh":
        request = make(lab, 4 * letter, name=case if letter == "b" else "a")
        see = check(picture, request)
        names, first = list(kv._block_hashes(request)), kv._hash_block(None, (ord(letter), ord(letter)), None)
        what = f"whether block 0 is named by {2 * letter}, when the request before it, of other tokens, is gone"
        see(what, bool(names[0] == first), equals=True)
        see("how many names it has", len(names), equals=2)
        del request, see  # its place in memory is free for the next one


@concept("The salt is in the first name, also if the first block ends in the output.", invariant="I1")
def test_salt_of_a_short_prompt(lab):
    kv = lab.KVCacheManager(8, 4)
    a, b = make(lab, "a", salt="tenant"), make(lab, "a", name="b")
    for letter in "bcd":
        a.append_output_token(ord(letter))
        b.append_output_token(ord(letter))
    see = check(picture, a, b)
    same = kv._block_hashes(a)[0] == kv._block_hashes(b)[0]
    see("whether the first blocks of a and b have the same name", bool(same), equals=False)


@concept("What was generated counts like the prompt: blocks of it have names too.", invariant="I2")
def test_output_has_names_too(lab):
    kv = lab.KVCacheManager(8, 3)
    a = make(lab, "abcd")
    see = check(picture, a)
    see("names of a prompt of 4 tokens, block size 3", len(kv._block_hashes(a)), equals=1)
    for letter in "ef":
        a.append_output_token(ord(letter))
    see("names after 2 more tokens", len(kv._block_hashes(a)), equals=2)
    same = kv._block_hashes(a)[1] == kv._block_hashes(make(lab, "abcdef", name="b"))[1]
    see("the name of the second block is that of a prompt of these 6 tokens", bool(same), equals=True)


@concept("Names depend on the tokens that are known, not on how many are computed or whether it runs.", invariant="I2")
@cases(waiting="WAITING", running="RUNNING", preempted="PREEMPTED", finished="FINISHED_STOPPED")
def test_names_run_ahead_of_the_counter(lab, case):
    kv, a, b = lab.KVCacheManager(8, 2), make(lab, "abcdef"), make(lab, "abcdefgh", name="b")
    see = check(picture, a, b)
    see("names of a, 6 tokens, block size 2", len(kv._block_hashes(a)), equals=3)
    for each in a, b:
        each.num_computed_tokens, each.status = 3, getattr(lab.RequestStatus, case)
        each.num_preemptions = 2 if case == "PREEMPTED" else 0
    for letter in "gh":
        a.append_output_token(ord(letter))
    see(f"names of a, with 2 tokens more, 3 computed, {case}", len(kv._block_hashes(a)), equals=4)
    see(f"names of b, 8 tokens, 3 computed, {case}, asked for the first time", len(kv._block_hashes(b)), equals=4)


@concept("A name is made once: a decode step hashes what is new, not the whole prompt again.", invariant="I2")
def test_names_are_remembered(lab):
    kv = lab.KVCacheManager(16, 2)
    made, make_name = [], kv._hash_block

    def counting(parent, token_ids, cache_salt):
        made.append(token_ids)
        return make_name(parent, token_ids, cache_salt)

    kv._hash_block = counting
    a = make(lab, "abcdefg")
    see = check(picture, a)
    kv._block_hashes(a)
    see("blocks hashed for 7 tokens, block size 2", len(made), equals=3)
    see("names that request.block_hashes remembers", len(a.block_hashes), equals=3)
    kv._block_hashes(a)
    kv.get_computed_blocks(a)
    see("blocks hashed after asking twice more", len(made), equals=3)
    a.append_output_token(ord("h"))
    kv._block_hashes(a)
    see("blocks hashed after one more token, which fills a block", len(made), equals=4)
    kv.get_computed_blocks(a)
    kv._block_hashes(a)
    see("blocks hashed after asking twice more", len(made), equals=4)


@concept("The last token is always computed: a hit ends at least one token before the end.", invariant="I4")
@cases(
    of_1=(1, {1: 0, 2: 1, 3: 2}),
    of_3=(3, {2: 0, 3: 0, 4: 3, 6: 3, 7: 6}),
    of_4=(4, {3: 0, 4: 0, 5: 4, 8: 4, 9: 8}),
    of_16=(16, {15: 0, 16: 0, 17: 16, 32: 16, 33: 32}),
)
def test_the_last_token_is_computed(lab, case):
    size, expected = case
    for length, tokens in expected.items():
        kv = lab.KVCacheManager(8, size)
        text = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ"[:length]
        cached = publish(kv, make(lab, text))
        again = make(lab, text, name="b")
        see = check(picture, again)
        for holders in range(4):
            blocks, num_tokens = hit(kv, again)
            what = f"{length} that were cached whole and are held by {holders} requests, block size {size}"
            see(f"tokens found of {what}", num_tokens, equals=tokens)
            see("blocks found", len(blocks), equals=tokens // size)
            kv.block_pool.touch(cached)


@concept(
    "A hit is as long as the common prefix, in whole blocks, and in the order of the prefix.",
    invariant="I3",
    illustrates=True,
)
@cases(
    all_of_a_longer_one=("abcdefghijkl", 3),
    two_blocks=("abcdefxx", 2),
    differs_in_the_second=("abcxefghi", 1),
    differs_in_the_first=("xbcdefghi", 0),
    nothing_in_common=("zzzzzzz", 0),
)
def test_the_longest_prefix(lab, case):
    text, number = case
    kv = lab.KVCacheManager(8, 3)
    publish(kv, make(lab, "abcdefghi"))
    b = make(lab, text, name="b")
    see = check(picture, b)
    blocks, num_tokens = hit(kv, b)
    see("ids of the blocks found, abc def ghi lie in 1 2 3", blocks, equals=[1, 2, 3][:number])
    see("tokens found, 3 in each block", num_tokens, equals=3 * number)


@concept("A block is found whether a request holds it or not, and how many are free does not matter.", invariant="I3")
@cases(none_held=[], first_held=[0], second_held=[1], two_held=[0, 1], first_free=[1, 2], all_held=[0, 1, 2])
def test_held_blocks_are_found(lab, case):
    kv = lab.KVCacheManager(4, 2)
    blocks = publish(kv, make(lab, "abcdef"))
    kv.block_pool.touch([blocks[i] for i in case])
    b = make(lab, "abcdef!", name="b")
    see = check(lab.draw.blocks, kv)
    what = f"ids of the blocks found, 1 2 3 are cached, held are {[i + 1 for i in case]}"
    see(what, hit(kv, b)[0], equals=[1, 2, 3])


@concept("A request finds what is there, whatever its id, its status and its counters say.", invariant="I3")
@cases(
    waiting=("WAITING", 0, 0),
    running=("RUNNING", 3, 0),
    preempted=("PREEMPTED", 0, 2),
    finished=("FINISHED_STOPPED", 6, 0),
)
def test_who_asks_does_not_matter(lab, case):
    status, num_computed, num_preemptions = case
    kv = lab.KVCacheManager(8, 2)
    publish(kv, make(lab, "abcdef"))
    for name in "b", "", " ", "_b", "B", "probe":
        b = make(lab, "abcdefgh", name=name)
        b.status, b.num_computed_tokens = getattr(lab.RequestStatus, status), num_computed
        b.num_preemptions = num_preemptions
        see = check(picture, b)
        what = f"found for a request of the id {name!r}, {status}, {num_computed} tokens computed"
        see(f"blocks and tokens {what}", hit(kv, b), equals=([1, 2, 3], 6))


@concept("After a gap nothing counts: what comes later was built on what is missing.", invariant="I3")
@cases(first=([0], 0), second=([1], 1), third=([2], 2), two=([1, 3], 1))
def test_a_gap_ends_the_hit(lab, case):
    evicted, number = case
    kv = lab.KVCacheManager(8, 2)
    blocks = publish(kv, make(lab, "abcdefgh"))
    for i in evicted:
        kv.block_pool.uncache_block(blocks[i])
    b = make(lab, "abcdefgh!", name="b")
    see = check(picture, b)
    what = f"tokens found in the blocks 1 2 3 4, without {' and '.join(str(i + 1) for i in evicted)}"
    see(what, hit(kv, b)[1], equals=2 * number)


@concept("What can be found changes: it is looked up again each time, for the same request too.", invariant="I3")
def test_nothing_found_is_remembered(lab):
    kv = lab.KVCacheManager(8, 2)
    b = make(lab, "abcdef!", name="b")
    see = check(picture, b)
    see("blocks found before anybody published", hit(kv, b)[0], equals=[])
    blocks = publish(kv, make(lab, "abcdef"))
    see("blocks found after abcdef was published", hit(kv, b)[0], equals=[1, 2, 3])
    kv.block_pool.uncache_block(blocks[1])
    see("blocks found after block 2 was evicted", hit(kv, b)[0], equals=[1])


@concept("A hit may grow while its blocks stay, so it is looked up again.", invariant="I3", illustrates=True)
def test_a_hit_that_grows(lab):
    kv, a = lab.KVCacheManager(8, 2), make(lab, "abcdef")
    publish(kv, a, 1)
    b = make(lab, "abcdef!", name="b")
    see = check(picture, b)
    for number in (1, 2, 3):
        see(f"tokens found while {number} blocks of b are cached", hit(kv, b)[1], equals=2 * number)
        if number < 3:
            block = kv.block_pool.get_new_blocks(1)[0]
            kv.block_pool.cache_block(block, list(kv._block_hashes(a))[number])


@concept("A name may be any value but None, so also 0, b'' and ().", invariant="I3", illustrates=True)
def test_names_that_look_like_nothing(lab):
    kv = lab.KVCacheManager(8, 2)
    kv._hash_block = lambda parent, token_ids, cache_salt: {None: 0, 0: b"", b"": ()}[parent]
    publish(kv, make(lab, "abcdef"))
    b = make(lab, "abcdefg", name="b")
    see = check(picture, b)
    see("blocks that are found", hit(kv, b)[0], equals=[1, 2, 3])


@concept("Several blocks may have one content: the one that get_cached_block() gives is the hit.", invariant="I3")
def test_the_block_that_answers(lab):
    kv = lab.KVCacheManager(8, 2)
    publish(kv, make(lab, "ab"))
    publish(kv, make(lab, "ab", name="again"))
    b = make(lab, "ab!", name="b")
    see = check(picture, b)
    answers = kv.block_pool.get_cached_block(kv._block_hashes(b)[0]).block_id
    see("the block found for ab, which two blocks have", hit(kv, b)[0], equals=[answers])


@concept("A request that comes back finds its output as well as its prompt.", invariant="I4")
def test_a_request_that_comes_back(lab):
    kv = lab.KVCacheManager(8, 2)
    a = make(lab, "abc")
    for letter in "defg":
        a.append_output_token(ord(letter))
    publish(kv, a)
    see = check(picture, a)
    a.status, a.num_preemptions = lab.RequestStatus.PREEMPTED, 1
    see("tokens found of 3 prompt and 4 output tokens, after a preemption", hit(kv, a)[1], equals=6)


@concept("With prefix caching off nothing is found.", invariant="I3")
def test_caching_off(lab):
    kv = lab.KVCacheManager(8, 2, enable_prefix_caching=False)
    publish(kv, make(lab, "abcd"))
    b = make(lab, "abcdef", name="b")
    see = check(picture, b)
    see("blocks and tokens found with caching off", hit(kv, b), equals=([], 0))


@concept("To look changes nothing: a request that is not admitted after all has taken nothing.", invariant="I5")
@cases(new=("WAITING", 0), preempted=("PREEMPTED", 2))
def test_looking_changes_nothing(lab, case):
    status, num_preemptions = case
    kv = lab.KVCacheManager(8, 2)
    publish(kv, make(lab, "abcdef"))
    b = make(lab, "abcdefgh", name="b")
    b.status, b.num_preemptions = getattr(lab.RequestStatus, status), num_preemptions
    see = check(lab.draw.blocks, kv, "b")
    see("tokens found", hit(kv, b)[1], equals=6)
    see("counts of the blocks found", [block.ref_cnt for block in kv.block_pool.blocks[1:4]], equals=[0, 0, 0])
    see("free blocks, front first", kv.free_block_ids(), equals=[4, 5, 6, 7, 3, 2, 1])
    see("computed tokens of the request", b.num_computed_tokens, equals=0)
    see("cached tokens that the request reports", b.num_cached_tokens, equals=0)
    see("how often the request says it was preempted", b.num_preemptions, equals=num_preemptions)
    see("tokens of the request", "".join(map(chr, b.all_token_ids)), equals="abcdefgh")
    see("tokens found by a second look", hit(kv, b)[1], equals=6)


@concept("The list of hits is the caller's: the next look makes another one.", invariant="I5")
def test_the_list_of_hits_is_the_callers(lab):
    kv = lab.KVCacheManager(8, 2)
    publish(kv, make(lab, "abcdef"))
    b = make(lab, "abcdefgh", name="b")
    see = check(picture, b)
    blocks, _ = kv.get_computed_blocks(b)
    hit(kv, make(lab, "abxxxx", name="c"))
    see("blocks found for b, after c was looked up", [block.block_id for block in blocks], equals=[1, 2, 3])
    blocks.clear()
    see("blocks found for b, after the caller emptied the list", hit(kv, b)[0], equals=[1, 2, 3])
    (one, _), (again, _) = kv.get_computed_blocks(b), kv.get_computed_blocks(b)
    one.clear()
    see("the second of two equal lists, after the first one was emptied", len(again), equals=3)
    for caching in True, False:
        kv = lab.KVCacheManager(8, 2, enable_prefix_caching=caching)
        blocks, _ = kv.get_computed_blocks(b)
        blocks.append(kv.block_pool.blocks[1])
        what = f"what is found where nothing is, caching is {caching}, after the caller filled the list"
        see(what, hit(kv, b), equals=([], 0))


@concept("A prompt may have thousands of blocks: they are walked, not nested.", invariant="I3")
def test_a_long_prompt(lab):
    kv = lab.KVCacheManager(2001, 2)
    text = "".join(chr(97 + i % 7) for i in range(3999))
    publish(kv, make(lab, text))
    b = make(lab, text + "!", name="b")
    see = check(picture, b)
    see("tokens found of 4000", hit(kv, b)[1], equals=3998)


def plan_looks(rng):
    """A manager, and requests that begin alike, whose ids are used again; they grow, are published and evicted."""
    calls = [("KVCacheManager", rng.choice((1, 2, 3)), rng.random() < 0.9, rng.choice(("exact", "sha256")))]
    begin = "".join(rng.choices("ab\u0161\0", k=10))
    alive = ""
    for _ in range(rng.randint(4, 14)):
        call = rng.choice(("request", "request", "append", "publish", "publish", "hold", "evict"))
        own = "".join(rng.choices("ab\0", k=rng.randint(0, 3)))
        if call == "request" or len(alive) < 2:
            name, text = rng.choice("rst"), (begin[: rng.choice((0, 1, 4, 6, 9, 10))] + own) or "a"
            calls.append(("request", name, text, rng.choice((None, None, None, "None", "", "x", "x"))))
            alive += name if name not in alive else ""
        elif call == "append":
            calls.append((call, rng.choice(alive), own + begin[:3]))
        else:
            calls.append((call, rng.choice(alive), rng.randint(0, 5)))
    return calls


def play_looks(lab, calls):
    """publish: the first blocks, held by nobody; hold: the same, held. evict: all blocks of one name."""
    requests = {}
    for call, *arguments in calls:
        request = requests.get(arguments[0])
        if call == "KVCacheManager":
            block_size, caching, hash_function = arguments
            kv = lab.KVCacheManager(17, block_size, enable_prefix_caching=caching, hash_function=hash_function)
        elif call == "request":
            requests.pop(arguments[0], None)
            del request
            requests[arguments[0]] = make(lab, arguments[1], arguments[0], arguments[2])
        elif request is None:
            continue
        elif call == "append":
            request.status = lab.RequestStatus.RUNNING
            for letter in arguments[1]:
                request.append_output_token(ord(letter))
                request.num_computed_tokens = request.num_tokens
        elif call in ("publish", "hold"):
            names = list(kv._block_hashes(request))[: arguments[1]]
            blocks = attempt(ValueError, kv.block_pool.get_new_blocks, len(names))
            if blocks != "ValueError":
                for block, name in zip(blocks, names):
                    kv.block_pool.cache_block(block, name)
                if call == "publish":
                    kv.block_pool.free_blocks(blocks)
        else:
            name = list(kv._block_hashes(request))[arguments[1] : arguments[1] + 1]
            while block := kv.block_pool.get_cached_block(name[0]) if name else None:
                kv.block_pool.uncache_block(block)
        state = picture(*requests.values())
        names = [
            (f"{key}[{i}]", name) for key, each in requests.items() for i, name in enumerate(kv._block_hashes(each))
        ]
        yield "I2", "blocks that have a name", [place for place, _ in names], state
        equal = [(x, y) for k, (x, name) in enumerate(names) for y, other in names[:k] if name == other]
        yield "I1", "blocks of equal names", equal, state
        for key, each in requests.items():
            blocks, num_tokens = hit(kv, each)
            law = "I4" if num_tokens >= each.num_tokens else "I3"
            yield law, f"ids of the blocks found for {key}, and tokens", (blocks, num_tokens), state
            yield "I5", f"counters of {key}", (each.num_computed_tokens, each.num_cached_tokens, each.num_tokens), state
        yield "I5", "free blocks after all were looked up", kv.free_block_ids(), state
        yield "I5", "counts of all blocks", [block.ref_cnt for block in kv.block_pool.blocks], state


@concept(
    "Whatever came and went, names are equal where the prefix is, and the longest prefix is found.",
    invariant="I1",
    searches=True,
)
def test_any_looks(lab):
    walk(lab, plan_looks, play_looks, 60)
