"""Lab 02.3: the name of a block, and the longest prefix that is found."""

from labkit import cases, check, concept


def make(lab, tokens, name="a", salt=None):
    """A request; tokens is a text, each letter one token."""
    return lab.Request(name, [ord(letter) for letter in tokens], lab.SamplingParams(max_tokens=64), cache_salt=salt)


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
    return [block.block_id for block in blocks], num_tokens


def picture(*requests):
    """What the requests hold, and the salt."""
    lines = []
    for request in requests:
        text = "".join(map(chr, request.all_token_ids))
        lines.append(
            f"{request.request_id}  {text if len(text) < 60 else text[:57] + '...'}  salt {request.cache_salt!r}"
        )
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


@concept("Equal prefixes have equal names, whoever asks.", invariant="I1", illustrates=True)
@cases(exact="exact", sha256="sha256")
def test_equal_prefixes_have_equal_names(lab, case):
    kv = lab.KVCacheManager(8, 3, hash_function=case)
    a, b = make(lab, "abcdefg"), make(lab, "abcdefxyz", name="b")
    see = check(picture, a, b)
    ours, theirs = kv._block_hashes(a), kv._block_hashes(b)
    see("blocks of equal prefix whose names are equal", [x == y for x, y in zip(ours, theirs)], equals=[True, True])


@concept("A name covers everything before the block, as far back as it goes.", invariant="I1")
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


@concept("Requests with different salts never share, and those with the same salt do.", invariant="I1")
@cases(
    same=("tenant", "tenant", True),
    other=("tenant", "other", False),
    one_without=("tenant", None, False),
    empty_is_a_salt=("", None, False),
)
def test_salt(lab, case):
    ours, theirs, expected = case
    for hash_function in ("exact", "sha256"):
        kv = lab.KVCacheManager(8, 2, hash_function=hash_function)
        a, b = make(lab, "abcd", salt=ours), make(lab, "abcd", name="b", salt=theirs)
        see = check(picture, a, b)
        same = [x == y for x, y in zip(kv._block_hashes(a), kv._block_hashes(b))]
        see("blocks of a and b whose names are equal", same, equals=[expected, expected])


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
        publish(kv, make(lab, text))
        again = make(lab, text, name="b")
        see = check(picture, again)
        blocks, num_tokens = hit(kv, again)
        see(f"tokens found of {length} that were cached whole, block size {size}", num_tokens, equals=tokens)
        see("blocks found", len(blocks), equals=tokens // size)


@concept("A hit is as long as the common prefix, in whole blocks, and in the order of the prefix.", invariant="I3")
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
    see("tokens found", num_tokens, equals=3 * number)


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


@concept("A request that comes back finds its output as well as its prompt.", invariant="I4")
def test_a_request_that_comes_back(lab):
    kv = lab.KVCacheManager(8, 2)
    a = make(lab, "abc")
    for letter in "defg":
        a.append_output_token(ord(letter))
    publish(kv, a)
    see = check(picture, a)
    see("tokens found of 3 prompt and 4 output tokens", hit(kv, a)[1], equals=6)


@concept("With prefix caching off nothing is found.", invariant="I3")
def test_caching_off(lab):
    kv = lab.KVCacheManager(8, 2, enable_prefix_caching=False)
    publish(kv, make(lab, "abcd"))
    b = make(lab, "abcdef", name="b")
    see = check(picture, b)
    see("blocks and tokens found with caching off", hit(kv, b), equals=([], 0))


@concept("Looking changes nothing: who is not admitted after all has taken nothing.", invariant="I5")
def test_looking_changes_nothing(lab):
    kv = lab.KVCacheManager(8, 2)
    publish(kv, make(lab, "abcdef"))
    b = make(lab, "abcdefgh", name="b")
    see = check(lab.draw.blocks, kv, "b")
    see("tokens found", hit(kv, b)[1], equals=6)
    see("counts of the blocks found", [block.ref_cnt for block in kv.block_pool.blocks[1:4]], equals=[0, 0, 0])
    see("free blocks, front first", kv.free_block_ids(), equals=[4, 5, 6, 7, 3, 2, 1])
    see("computed tokens of the request", b.num_computed_tokens, equals=0)
    see("cached tokens that the request reports", b.num_cached_tokens, equals=0)
    see("tokens found by a second look", hit(kv, b)[1], equals=6)


@concept("A prompt may have thousands of blocks: they are walked, not nested.", invariant="I3")
def test_a_long_prompt(lab):
    kv = lab.KVCacheManager(2001, 2)
    text = "".join(chr(97 + i % 7) for i in range(3999))
    publish(kv, make(lab, text))
    b = make(lab, text + "!", name="b")
    see = check(picture, b)
    see("tokens found of 4000", hit(kv, b)[1], equals=3998)
