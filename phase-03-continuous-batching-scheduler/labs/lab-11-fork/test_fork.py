"""Lab 03.11: one past, two futures; who gets a copy, what it costs, and that nobody else notices."""

from labkit import cases, check, concept, far, walk


class Cache:
    """A manager, and what its blocks hold: one letter a slot. It copies and writes as the runner does."""

    def __init__(self, lab, blocks, size, caching=True):
        self.lab, self.size = lab, size
        self.kv = lab.ForkingKVCacheManager(blocks + 1, size, enable_prefix_caching=caching)
        self.params = lab.SamplingParams(max_tokens=64)
        self.slots = {}  # (block, offset): letter
        self.told = []  # all copies that were told
        self.requests = []

    def begin(self, name, text):
        """A request whose prompt, a letter a token, is computed."""
        request = self.make(name, text)
        self.requests.append(request)
        self.step(request, count=len(text))
        return request

    def make(self, name, text):
        return self.lab.Request(name, [ord(letter) for letter in text], self.params)

    def fork(self, parent, *names):
        """Children that have all tokens of the parent; one or a list."""
        children = [self.make(name, self.text(parent)) for name in names]
        for child in children:
            self.kv.fork(parent, child)
            child.num_computed_tokens = parent.num_computed_tokens
        self.requests += children
        return children if len(children) > 1 else children[0]

    def text(self, request):
        """All tokens, as letters."""
        return "".join(map(chr, request.all_token_ids))

    def say(self, request, letters):
        """A step of one request alone, in which it computes these letters."""
        for letter in letters:
            request.append_output_token(ord(letter))
        self.step(request, count=len(letters))

    def step(self, *requests, count=1):
        """One step: slots for everybody, in this order; then the copies; then everybody writes."""
        see = check(self.draw)
        for request in requests:
            given = self.kv.allocate_slots(request, count)
            see.true(f"{request.request_id} gets its slots (tokens: {count}); there is room", given is not None, "None")
        self.run(*requests, count=count)

    def run(self, *requests, count=1):
        self.copy()
        for request in requests:
            self.write(request, count)

    def copy(self):
        copies = self.take()
        self.told += copies
        self.slots |= {(new, i): self.slots.get((old, i), "?") for old, new in copies for i in range(self.size)}

    def take(self):
        return [tuple(pair) for pair in self.kv.take_copies()]

    def write(self, request, count):
        table, start = self.kv.get_block_ids(request.request_id), request.num_computed_tokens
        for i, letter in enumerate(self.text(request)[start : start + count], start):
            if i // self.size < len(table):
                self.slots[table[i // self.size], i % self.size] = letter
        request.num_computed_tokens += count

    def read(self, request):
        """The letters that the request's computed tokens find in its blocks."""
        return self.letters(self.kv.get_block_ids(request.request_id), request.num_computed_tokens)

    def letters(self, table, length):
        places = [
            (table[i // self.size] if i // self.size < len(table) else None, i % self.size) for i in range(length)
        ]
        return "".join(self.slots.get(place, "?") for place in places)

    def found(self, text):
        """What somebody with these tokens reads in the blocks that the prefix cache finds for them."""
        hits, length = self.kv.get_computed_blocks(self.make("probe", text + "!"))
        return self.letters([block.block_id for block in hits], length)

    def counted_wrong(self):
        """The blocks whose ref_cnt is not the number of the tables that hold them."""
        tables = [self.kv.get_block_ids(request.request_id) for request in self.requests]
        held, wrong = [block_id for table in tables for block_id in table], []
        for block in self.kv.block_pool.blocks[1:]:
            holders = held.count(block.block_id)
            if block.ref_cnt != holders:
                wrong.append(f"{block.block_id}: ref_cnt {block.ref_cnt}, in {holders} tables")
        return wrong

    def draw(self):
        lines = []
        for request in self.requests:
            table = " ".join(map(str, self.kv.get_block_ids(request.request_id)))
            lines.append(f"{request.request_id:5} blocks {table or '-':9} reads {self.read(request)}")
        free = [*map(str, self.kv.free_block_ids())]
        return "\n".join([*lines, f"free  {' '.join(free[:12]) or '-'}{' ...' * (len(free) > 12)}"])


def table_of(cache, name):
    return cache.kv.get_block_ids(name)


@concept("A fork takes no block: the child's table reads as its parent's.", invariant="I1")
@cases(
    partial=(2, "abc", [1, 2]),
    full=(2, "abcd", [1, 2]),
    less_than_a_block=(4, "abc", [1]),
    blocks_of_1=(1, "abc", [1, 2, 3]),
    blocks_of_3=(3, "abcdefg", [1, 2, 3]),
    nothing_is_computed_yet=(2, "", [1, 2]),
)
def test_a_child_reads_what_its_parent_reads(lab, case):
    size, text, table = case
    cache = Cache(lab, 6, size)
    if text:
        a = cache.begin("a", text)
    else:
        a = cache.make("a", "abc")
        cache.requests.append(a)
        cache.kv.allocate_slots(a, 3)
    see = check(cache.draw)
    b = cache.fork(a, "b")
    see("the block table of a, the parent", cache.kv.get_block_ids("a"), equals=table)
    see("the block table of b, the child", cache.kv.get_block_ids("b"), equals=table)
    see("how many blocks are free, of 6", cache.kv.num_free_blocks, equals=6 - len(table))
    see("what b reads", cache.read(b), equals=text)
    see("copies to make", cache.take(), equals=[])


@concept("A full block is no longer written: it stays shared, and is never copied.", invariant="I3")
@cases(blocks_of_1=(1, "abc", [1, 2, 3]), blocks_of_2=(2, "abcd", [1, 2]), blocks_of_3=(3, "abc", [1]))
def test_full_blocks_stay_shared(lab, case):
    size, text, shared = case
    cache = Cache(lab, 8, size)
    a = cache.begin("a", text)
    b = cache.fork(a, "b")
    see = check(cache.draw)
    cache.say(b, "X")
    cache.say(a, "Y")
    see("copies to make", cache.told, equals=[])
    see("the block table of b", cache.kv.get_block_ids("b"), equals=[*shared, len(shared) + 1])
    see("the block table of a", cache.kv.get_block_ids("a"), equals=[*shared, len(shared) + 2])


@concept("Two tables: a block that one of them gets later is not in the other.", invariant="I1", illustrates=True)
@cases(parent_grows="a", child_grows="b")
def test_two_tables(lab, case):
    cache = Cache(lab, 6, 2)
    a = cache.begin("a", "abcd")
    b = cache.fork(a, "b")
    see = check(cache.draw)
    cache.say(a if case == "a" else b, "X")
    other = "b" if case == "a" else "a"
    see(f"the block table of {case}, which computed a token", cache.kv.get_block_ids(case), equals=[1, 2, 3])
    see(f"the block table of {other}, which did nothing", cache.kv.get_block_ids(other), equals=[1, 2])


@concept("A fork of a request that holds no blocks holds none: it has no table, not even an empty one.", invariant="I1")
def test_nothing_to_share(lab):
    cache = Cache(lab, 4, 2)
    a = cache.make("a", "abc")
    cache.fork(a, "b")
    see = check(cache.draw)
    see("the block table of b", cache.kv.get_block_ids("b"), equals=[])
    see("whether the cache can be reset: nobody holds a table", cache.kv.reset_prefix_cache(), equals=True)


@concept(
    "A request that writes into a shared block gets a block of its own; the other holders keep theirs.",
    invariant="I2",
    illustrates=True,
)
@cases(
    the_child=("b", {"a": [1, 2], "b": [1, 3]}),
    the_parent=("a", {"a": [1, 3], "b": [1, 2]}),
    one_of_three=("b", {"a": [1, 2], "b": [1, 3], "c": [1, 2]}),
    the_youngest_of_three=("c", {"a": [1, 2], "b": [1, 2], "c": [1, 3]}),
    one_of_six=("b", {"a": [1, 2], "b": [1, 3], **{name: [1, 2] for name in "cdef"}}),
)
def test_the_writer_gets_a_copy(lab, case):
    writer, tables = case
    cache = Cache(lab, 6, 2)
    requests = {"a": cache.begin("a", "abc")}
    for name in list(tables)[1:]:
        requests[name] = cache.fork(requests["a"], name)
    see = check(cache.draw)
    cache.say(requests[writer], "X")
    see("copies to make, (old, new)", cache.told, equals=[(2, 3)])
    for name, table in tables.items():
        see(f"the block table of {name}; {writer} wrote", cache.kv.get_block_ids(name), equals=table)
        text = "abcX" if name == writer else "abc"
        see(f"what {name} reads", cache.read(requests[name]), equals=text)


@concept("In one step each request writes its own token, and reads its own past afterwards.", invariant="I2")
@cases(
    without_caching=("bca", 2, False),
    parent_first=("abc", 2, True),
    child_first=("cba", 2, True),
    blocks_of_1=("abc", 1, True),
    blocks_of_3=("bac", 3, True),
    blocks_of_4=("cab", 4, True),
    four=("dbac", 2, True),
    seven=("abcdefg", 4, False),
    dozens=("".join(map(chr, range(97, 97 + far(24)))), 2, False),
)
def test_everybody_writes(lab, case):
    order, size, caching = case
    cache = Cache(lab, 5 * len(order) if len(order) > 8 else 40, size, caching)
    a = cache.begin("a", "vwxyz")
    names = sorted(order)
    requests = dict(zip(names, [a, *cache.fork(a, *names[1:])]))
    see = check(cache.draw)
    for step in "1234":
        for name in names:
            requests[name].append_output_token(ord(step if name == "a" else name.upper()))
        cache.step(*[requests[name] for name in order])
    for name in names:
        text = "vwxyz" + ("1234" if name == "a" else name.upper() * 4)
        see(f"what {name} reads; they wrote in the order {' '.join(order)}", cache.read(requests[name]), equals=text)


@concept(
    "Several tokens may go into several shared blocks: each that is written is replaced, the others are not.",
    invariant="I2",
)
@cases(
    one=("abc", 1, [2], 1),
    two=("abc", 2, [2, 3], 2),
    three=("abc", 3, [2, 3], 2),
    five=("abc", 5, [2, 3, 4], 3),
    past_the_end=("abc", 6, [2, 3, 4], 4),
    from_a_full_block=("ab", 1, [2], 1),
    behind_a_long_past=("abcdefghi", 2, [5, 6], 2),
)
def test_slots_given_ahead(lab, case):
    text, count, own, price = case
    cache = Cache(lab, 16, 2, caching=False)
    a = cache.begin("a", text)
    cache.kv.allocate_slots(a, 4)  # for d e f g, which come later
    b = cache.fork(a, "b")
    see = check(cache.draw)
    see(
        "the block table of b, with the slots that a was given ahead", table_of(cache, "b"), equals=table_of(cache, "a")
    )
    needed = cache.kv.num_blocks_needed(b, len(text) + count)
    see(f"blocks needed for b's next tokens: {count}, block size 2", needed, equals=price)
    cache.say(b, "UVWXYZ"[:count])
    tables = zip(cache.kv.get_block_ids("a"), cache.kv.get_block_ids("b"))
    see(
        f"blocks of a that b shares no more; tokens that it wrote: {count}",
        [x for x, y in tables if x != y],
        equals=own,
    )
    for letter in "defg":
        a.append_output_token(ord(letter))
    cache.write(a, 4)
    see("what a reads", cache.read(a), equals=text + "defg")
    see("what b reads", cache.read(b), equals=text + "UVWXYZ"[:count])


@concept("The last holder of a block writes in place, however the others went.", invariant="I3")
@cases(the_others_wrote="write", the_others_are_gone="free", one_of_each="both")
def test_the_last_holder_writes_in_place(lab, case):
    cache = Cache(lab, 8, 2)
    a = cache.begin("a", "abc")
    b, c = cache.fork(a, "b", "c")
    for name, letter in zip("xyz", "XYZ"):
        cache.begin(name, letter)
    if case == "free":
        cache.kv.free(b)
    else:
        cache.say(b, "X")
    if case == "write":
        cache.say(a, "Y")
    else:
        cache.kv.free(a)
    told = len(cache.told)
    see = check(cache.draw)
    see("blocks needed by c for one token more", cache.kv.num_blocks_needed(c, 4), equals=0)
    cache.say(c, "Z")
    see("copies that c's token takes", len(cache.told) - told, equals=0)
    see("the block table of c, now alone in block 2", cache.kv.get_block_ids("c"), equals=[1, 2])
    see("what c reads", cache.read(c), equals="abcZ")


@concept("What is counted is what is held, after every fork, copy and free; in the end all is free.", invariant="I4")
@cases(
    blocks_of_3=(3, [13, 12, 12, 8, 10, 11, 12, 16]),
    blocks_of_5=(5, [14, 13, 13, 11, 12, 13, 14, 16]),
)
def test_counts(lab, case):
    size, free = case
    cache = Cache(lab, 16, size)
    free = iter(free)
    see = check(cache.draw)

    def look(when):
        see(f"blocks that are counted wrong {when}", cache.counted_wrong(), equals=[])
        see(f"how many blocks are free {when}", len(cache.kv.free_block_ids()), equals=next(free))

    a = cache.begin("a", "abcdefg")
    b = cache.fork(a, "b")
    look("after b forked from a")
    cache.say(b, "X")
    look("after b wrote")
    c, d = cache.fork(b, "c", "d")
    look("after c and d forked from b")
    cache.say(c, "YY")
    cache.say(b, "ZZ")
    look("after c and b wrote")
    for request, name in ((b, "b"), (a, "a"), (d, "d"), (c, "c")):
        cache.kv.free(request)
        look(f"after {name} is gone")


@concept("The price counts a block for each copy, and asking for it changes nothing.", invariant="I5", illustrates=True)
@cases(
    a_copy=("abcdef", 1, 7, 1),
    a_copy_to_fill_the_block=("abcdef", 1, 8, 1),
    a_copy_and_a_new_one=("abcdef", 1, 9, 2),
    full=("abcdefgh", 1, 9, 1),
    two_new_ones=("abcdefgh", 1, 13, 2),
    three_share=("abcdef", 2, 7, 1),
    nobody_shares=("abcdef", 0, 7, 0),
    nobody_shares_and_a_new_one=("abcdef", 0, 9, 1),
)
def test_price(lab, case):
    text, num_children, num_tokens, expected = case
    cache = Cache(lab, 8, 4)
    request = cache.begin("a", text)
    for name in "bc"[:num_children]:
        cache.fork(request, name)
    see = check(cache.draw)
    what = f"blocks needed for {num_tokens} tokens, {len(text)} are computed in blocks of 4"
    free = cache.kv.num_free_blocks
    see(what, cache.kv.num_blocks_needed(request, num_tokens), equals=expected)
    see(f"{what}, asked again", cache.kv.num_blocks_needed(request, num_tokens), equals=expected)
    see("free blocks after asking", cache.kv.num_free_blocks, equals=free)


@concept(
    "For all together it is less than the sum: of the requests that share a partial block, one writes in place.",
    invariant="I5",
)
@cases(
    one=([("abcdef", 0)], 0),
    two=([("abcdef", 1)], 1),
    three=([("abcdef", 2)], 2),
    full=([("abcdefgh", 2)], 3),
    two_families=([("abcdef", 2), ("mnop", 1)], 4),
    three_families=([("abcdef", 2), ("mnopqr", 1), ("stu", 0)], 3),
    seven=([("abcdef", 6)], 6),
    five_and_four=([("abcdef", 4), ("mno", 3)], 7),
    two_families_of_one_text=([("abcdef", 1), ("abcdef", 1)], 2),
    nobody=([], 0),
)
def test_price_of_all_together(lab, case):
    families, expected = case
    cache = Cache(lab, 16, 4)
    for name, (text, num_children) in zip("amx", families):
        parent = cache.begin(name, text)
        for i in range(num_children):
            cache.fork(parent, f"{name}{i}")
    see = check(cache.draw)
    needed = cache.kv.num_blocks_to_append(cache.requests)
    see("blocks needed for a token each, block size 4", needed, equals=expected)
    if cache.requests:
        needed = cache.kv.num_blocks_to_append(cache.requests[::-1])
        see("blocks needed, asked in the other order", needed, equals=expected)


@concept("A price holds for the moment: the same requests pay less when one of them no longer shares.", invariant="I5")
def test_a_price_changes(lab):
    cache = Cache(lab, 8, 4)
    a = cache.begin("a", "abcdef")
    b = cache.fork(a, "b")
    see = check(cache.draw)
    prices = [cache.kv.num_blocks_to_append(cache.requests)]
    cache.kv.free(b)
    cache.requests.remove(b)
    cache.begin("b", "abcdef")
    prices.append(cache.kv.num_blocks_to_append(cache.requests))
    see("blocks needed for a token each: b is a fork of a; another b computed its own blocks", prices, equals=[1, 0])


@concept("All or nothing: one block too few gives None, and nothing shows that a request asked.", invariant="I5")
@cases(
    copy_fits=(3, 1, True),
    no_room_for_the_copy=(2, 1, False),
    copy_and_new_block_fit=(4, 3, True),
    room_for_the_copy_alone=(3, 3, False),
    room_for_neither=(2, 3, False),
)
def test_all_or_nothing(lab, case):
    blocks, count, fits = case
    cache = Cache(lab, blocks, 4)
    a = cache.begin("a", "abcdef")
    b = cache.fork(a, "b")
    for letter in "XYZ"[:count]:
        b.append_output_token(ord(letter))
    see = check(cache.draw)
    given = cache.kv.allocate_slots(b, count)
    what = f"whether there is room for b: {count} more than 6 tokens, block size 4, free blocks {blocks - 2}"
    see(what, given is not None, equals=fits)
    if fits:
        cache.run(b, count=count)
        see("what b reads", cache.read(b), equals="abcdef" + "XYZ"[:count])
        see("free blocks", cache.kv.num_free_blocks, equals=0)
    else:
        see("copies that are promised", cache.take(), equals=[])
        see("the block table of b", cache.kv.get_block_ids("b"), equals=[1, 2])
        see("how often block 2, the partial one, is held", cache.kv.block_pool.blocks[2].ref_cnt, equals=2)
        see("free blocks", cache.kv.num_free_blocks, equals=blocks - 2)
        see("what a reads", cache.read(a), equals="abcdef")


@concept(
    "A write into several shared blocks gets all its copies or none: where one has no room, no block is replaced.",
    invariant="I5",
)
@cases(one_of_two=(1, 3), one_of_three=(1, 5), two_of_three=(2, 5), two_and_a_new_block=(2, 6))
def test_several_copies_or_none(lab, case):
    free, count = case
    cache = Cache(lab, 4 + free, 2, caching=False)
    a = cache.begin("a", "abc")
    cache.kv.allocate_slots(a, 4)
    b = cache.fork(a, "b")
    for letter in "UVWXYZ"[:count]:
        b.append_output_token(ord(letter))
    free_ids = cache.kv.free_block_ids()
    see = check(cache.draw)
    what = f"b writes {count} tokens into the slots that a was given ahead, block size 2, free blocks {free}"
    see(f"whether there is room; {what}", cache.kv.allocate_slots(b, count) is not None, equals=False)
    see("copies that are promised", cache.take(), equals=[])
    see("the block tables of a and b", [table_of(cache, name) for name in "ab"], equals=[[1, 2, 3, 4]] * 2)
    see("free blocks, front first", cache.kv.free_block_ids(), equals=free_ids)


@concept(
    "None is an answer to one request: what the others of the step were promised stays promised.",
    invariant="I5",
)
@cases(room_for_neither=4, room_for_the_copy_alone=5)
def test_promises_of_the_others(lab, case):
    cache = Cache(lab, case, 4)
    a = cache.begin("a", "abcdef")
    b, c = cache.fork(a, "b", "c")
    for request, letters in ((b, "XYZ"), (c, "UVW")):
        for letter in letters:
            request.append_output_token(ord(letter))
    see = check(cache.draw)
    cache.kv.allocate_slots(b, 3)
    given = cache.kv.allocate_slots(c, 3)
    what = f"whether there is room for c, which writes 3 tokens more than 6, block size 4; free: {case - 4}"
    see(what, given is not None, equals=False)
    see("the block table of c", cache.kv.get_block_ids("c"), equals=[1, 2])
    see("free blocks", cache.kv.num_free_blocks, equals=case - 4)
    cache.run(b, count=3)
    see("copies to make, from block 2", [old for old, _ in cache.told], equals=[2])
    see("what b reads", cache.read(b), equals="abcdefXYZ")
    see("what c reads", cache.read(c), equals="abcdef")


@concept("A copy is told once, for the coming step: a list that was handed out does not change.", invariant="I2")
def test_copies_are_told_once(lab):
    cache = Cache(lab, 8, 2)
    a, m = cache.begin("a", "abc"), cache.begin("m", "mno")
    b, n = cache.fork(a, "b"), cache.fork(m, "n")
    see = check(cache.draw)
    nothing = cache.kv.take_copies()
    see("copies to make before anybody writes", [*nothing], equals=[])
    for request in (n, b):
        request.append_output_token(ord("X"))
        cache.kv.allocate_slots(request, 1)
    see("the first list, after n and b got a slot", [*nothing], equals=[])
    first = cache.kv.take_copies()
    see("copies to make after n and then b got a slot", [*map(tuple, first)], equals=[(4, 5), (2, 6)])
    see("copies to make when asked again", cache.take(), equals=[])
    d = cache.fork(a, "d")
    d.append_output_token(ord("X"))
    cache.kv.allocate_slots(d, 1)
    see("the second list, after d got a slot, too", [*map(tuple, first)], equals=[(4, 5), (2, 6)])
    first.clear()
    see("copies to make after d got a slot", cache.take(), equals=[(2, 7)])


@concept("Copies are told in the order in which they were promised, whatever the numbers of the blocks.",
         invariant="I2")  # fmt: skip
def test_the_order_of_the_copies(lab):
    cache = Cache(lab, 10, 2)
    parents = [cache.begin("a", "abc"), cache.begin("m", "mno"), cache.begin("s", "stu")]
    earlier = [cache.begin("x", "wxyz"), cache.begin("y", "vu")]
    for request in earlier:
        cache.kv.free(request)
        cache.requests.remove(request)
    b, n, t = [cache.fork(parent, name) for parent, name in zip(parents, "bnt")]
    free = cache.kv.free_block_ids()
    see = check(cache.draw)
    for request in (n, b, t):
        request.append_output_token(ord("X"))
        cache.kv.allocate_slots(request, 1)
    told = cache.take()
    see("the old blocks of the copies, when n, b and t get a slot", [old for old, _ in told],
        equals=[4, 2, 6])  # fmt: skip
    see("the new blocks: as they were in the free queue", [new for _, new in told], equals=[*free[:3]])


@concept(
    "An id is free when its request has ended: the next one of that name gets its copy like any other.",
    invariant="I2",
    illustrates=True,
)
def test_an_id_that_is_used_again(lab):
    cache = Cache(lab, 8, 2)
    a = cache.begin("a", "abc")
    see = check(cache.draw)
    for number, letter in enumerate("XY", start=1):
        b = cache.fork(a, "b")
        cache.say(b, letter)
        see(f"copies to make for the b that writes {letter}", len(cache.told), equals=number)
        see("what b reads", cache.read(b), equals=f"abc{letter}")
        see("what a reads", cache.read(a), equals="abc")
        cache.kv.free(b)
        cache.requests.remove(b)


@concept(
    "A promise ends with the step: a request that left before the copies were made has none in a later step.",
    invariant="I2",
)
@cases(the_same_id_again=("b", 3, (2, 3)), another_id=("c", 3, (2, 3)), another_block=("b", 8, (2, 4)))
def test_a_promise_ends_with_the_step(lab, case):
    name, blocks, expected = case
    cache = Cache(lab, blocks, 2)
    a = cache.begin("a", "abc")
    b = cache.fork(a, "b")
    b.append_output_token(ord("X"))
    cache.kv.allocate_slots(b, 1)
    cache.kv.free(b)
    cache.requests.remove(b)
    cache.take()
    other = cache.fork(a, name)
    other.append_output_token(ord("Y"))
    see = check(cache.draw)
    cache.kv.allocate_slots(other, 1)
    told = cache.take()
    see(f"copies to make for {name}; b, which got block 3 in the step before, was freed at once", told,
        equals=[expected])  # fmt: skip
    see("copies to make when asked again", cache.take(), equals=[])


@concept("A copy is made from a block that is free by then, too: no request has written into it yet.", invariant="I2")
@cases(from_the_parent="a", from_the_child="b")
def test_a_source_that_is_free(lab, case):
    cache = Cache(lab, 8, 2)
    a = cache.begin("a", "abc")
    b = cache.fork(a, "b")
    gone, writer = (a, b) if case == "a" else (b, a)
    writer.append_output_token(ord("X"))
    see = check(cache.draw)
    cache.kv.allocate_slots(writer, 1)
    cache.kv.free(gone)
    cache.requests.remove(gone)
    cache.run(writer)
    see(f"what {writer.request_id} reads; {case}, who held block 2, was freed before the copies were made",
        cache.read(writer), equals="abcX")  # fmt: skip


@concept(
    "A block may be given twice in one step: what its second holder is to find in it is what is copied last.",
    invariant="I2",
)
@cases(the_later_family_first=("n", "b"), the_later_family_last=("b", "n"))
def test_a_block_that_is_given_twice(lab, case):
    cache = Cache(lab, 5, 2)
    a, m = cache.begin("a", "abc"), cache.begin("m", "mno")
    parents = {"b": a, "n": m}
    earlier = cache.fork(parents[case[1]], case[1])
    cache.say(earlier, "V")
    cache.kv.free(earlier)  # and its id is free again
    cache.requests.remove(earlier)
    one, other = (cache.fork(parents[name], name) for name in case)
    see = check(cache.draw)
    for request in (one, other):
        request.append_output_token(ord("X"))
        cache.kv.allocate_slots(request, 1)
        if request is one:
            cache.kv.free(one)
            cache.requests.remove(one)
    cache.run(other)
    see(f"what {case[1]} reads, which got block 5 after {case[0]} was freed", cache.read(other),
        equals=cache.text(other))  # fmt: skip


@concept("Two managers know nothing of each other: each tells the copies that it promised.", invariant="I2")
def test_two_managers(lab):
    caches = [Cache(lab, 8, 2), Cache(lab, 8, 2)]
    see = check(lambda: "\n".join(cache.draw() for cache in caches))
    for cache, text in zip(caches, ("abc", "abcde")):
        child = cache.fork(cache.begin("a", text), "b")
        child.append_output_token(ord("X"))
        cache.kv.allocate_slots(child, 1)
    for cache, which, copies in zip(caches, ("first", "second"), ([(2, 3)], [(3, 4)])):
        see(f"copies that the {which} manager tells, when b of both got a slot", cache.take(), equals=copies)


@concept(
    "A request that is admitted with a prefix hit gets the hit's blocks and pays for them as usual.", invariant="I5"
)
@cases(a_holds_them=(True, 1, [1, 2, 4]), nobody_holds_them=(False, 3, [1, 2, 3]))
def test_a_prefix_hit(lab, case):
    is_held, price, table = case
    cache = Cache(lab, 8, 2)
    a = cache.begin("a", "abcde")
    if not is_held:
        cache.kv.free(a)
    b = cache.make("b", "abcdX")
    cache.requests.append(b)
    see = check(cache.draw)
    hits, length = cache.kv.get_computed_blocks(b)
    needed = cache.kv.num_blocks_needed(b, 5, hits)
    see("blocks needed for 5 tokens in blocks of 2; blocks 1 and 2 are a hit", needed, equals=price)
    cache.kv.allocate_slots(b, 1, hits)
    b.num_computed_tokens = length
    cache.run(b)
    see("the block table of b", cache.kv.get_block_ids("b"), equals=table)
    see("what b reads", cache.read(b), equals="abcdX")


@concept("The prefix cache finds each future under its own tokens, in the block where it was written.", invariant="I6")
@cases(parent_first=("a", "b"), child_first=("b", "a"))
def test_what_the_prefix_cache_finds(lab, case):
    cache = Cache(lab, 12, 2)
    a = cache.begin("a", "abc")
    requests = {"a": a, "b": cache.fork(a, "b")}
    see = check(cache.draw)
    for name in case:
        letter = {"a": "X", "b": "Y"}[name]
        cache.say(requests[name], letter)
        see(f"what is found for abc{letter}, the tokens of {name}", cache.found("abc" + letter), equals="abc" + letter)
    for letters in ("MN", "PQ"):
        for name, letter in zip("ab", letters):
            requests[name].append_output_token(ord(letter))
        cache.step(*[requests[name] for name in case])
    see("what is found for abcXMP, the tokens of a", cache.found("abcXMP"), equals="abcXMP")
    see("what is found for abcYNQ, the tokens of b", cache.found("abcYNQ"), equals="abcYNQ")
    see("what is found for abcYMP, which nobody computed", cache.found("abcYMP"), equals="abcY")


@concept("A child has its parent's past, so what it was before is not in the names of its blocks.", invariant="I6")
@cases(its_parent_runs=True, its_parent_holds_nothing=False)
def test_a_child_that_had_another_past(lab, case):
    cache = Cache(lab, 12, 2)
    a, b = cache.begin("a", "abc"), cache.begin("b", "vwxyz")
    see = check(cache.draw)
    cache.kv.free(b)
    if not case:
        cache.kv.free(a)
        a.num_computed_tokens = 0
    b.all_token_ids = list(a.all_token_ids)  # as a beam that is given up for a better one
    b.num_computed_tokens = a.num_computed_tokens
    cache.kv.fork(a, b)
    if not case:
        hits, _ = cache.kv.get_computed_blocks(b)
        see("the blocks that b finds for its tokens, abc", [block.block_id for block in hits], equals=[1])
        return
    cache.say(b, "X")
    see("what is found for abcX, the tokens of b", cache.found("abcX"), equals="abcX")
    see("what is found for vwxy, the tokens b once had", cache.found("vwxy"), equals="vwxy")


@concept(
    "With prefix caching off copies are made all the same, and nothing is found.", invariant="I6", illustrates=True
)
def test_caching_off(lab):
    cache = Cache(lab, 8, 2, caching=False)
    a = cache.begin("a", "abc")
    b = cache.fork(a, "b")
    see = check(cache.draw)
    cache.say(b, "X")
    cache.say(b, "YZ")
    cache.say(a, "V")
    see("copies to make", cache.told, equals=[(2, 3)])
    see("what a reads", cache.read(a), equals="abcV")
    see("what b reads", cache.read(b), equals="abcXYZ")
    see("contents in the cache", cache.kv.num_cached_blocks, equals=0)


# --- any calls ----------------------------------------------------------------------------------------------------


def plan_any(rng):
    """Forks of forks, steps of some of them, frees before and after the copies; a small pool, or a prefix cache."""
    caching = rng.random() < 0.5
    size = rng.choice((1, 2, 3, 4) if caching else (2, 3, 4))
    blocks = 40 if caching else -(-8 // size) + rng.choice((0, 0, 1, 2))
    calls = [("ForkingKVCacheManager", {"blocks": blocks, "size": size, "caching": caching})]
    names = rng.choice(("dbca", "dbca", "fgdbeca"))
    for number in range(rng.randint(6, 25)):
        name, other, kind = rng.choice(names), rng.choice(names), rng.random()
        if kind < 0.2 or number < 2:
            prompt = "abcdefgh"[: rng.choice((0, 2, 4, 5))] + "".join(rng.choices("XY", k=rng.randint(1, 4)))
            calls.append(("begin", name, prompt))
        elif kind < 0.45:
            calls.append(("fork", name, other))
        elif kind < 0.55:
            calls.append(("free", name))
        elif kind < 0.6:
            calls.append(("preempt", name))
        elif kind < 0.65 and not caching:
            calls.append(("slots_ahead", name, rng.choice((1, 3))))
        else:
            options = {"count": rng.choice((1, 1, 1, 2, 3))}
            if rng.random() < 0.25:
                options |= {"gone": other, "after": rng.randint(1, 4)}
            calls.append(("step", "".join(rng.sample(names, rng.randint(1, len(names)))), options))
    return calls


def play_any(lab, calls):
    """step() has who computes, in this order, how many tokens each, and who is freed after so many got their slots."""
    for name, *arguments in calls:
        if name == "ForkingKVCacheManager":
            cache = Walk(lab, **arguments[0])
        else:
            yield from getattr(cache, f"do_{name}")(*arguments)


class Walk(Cache):
    """The calls of a walk, and what may be seen after each. One that makes no sense does nothing."""

    def __init__(self, lab, blocks, size, caching):
        super().__init__(lab, blocks, size, caching)
        self.alive, self.num_said, self.is_ahead, self.texts = {}, 0, False, {}
        self.given = set()  # blocks that came into a table in this step

    def give(self, request, num_tokens, hits=()):
        """Whether it gets its slots; self.given has its new blocks then."""
        before = {*self.kv.get_block_ids(request.request_id)}
        is_given = self.kv.allocate_slots(request, num_tokens, hits) is not None
        self.given |= {*self.kv.get_block_ids(request.request_id)} - before
        return is_given

    def draw(self):
        return f"blocks of {self.size}, {self.kv.num_free_blocks} are free\n{super().draw()}"

    def do_begin(self, name, text):
        """A request that is new computes its prompt; one that was preempted computes all that it knows."""
        before = self.draw()
        request = self.alive.get(name) or self.make(name, text)
        if self.kv.get_block_ids(name):
            return
        if name not in self.alive:
            self.alive[name] = request
            self.requests.append(request)
        hits, found = self.kv.get_computed_blocks(request)
        length = len(request.all_token_ids)
        needed = self.kv.num_blocks_needed(request, length, hits)
        yield "I5", f"blocks needed for the {length} tokens of {name}, which hits {found}", needed, before
        is_given = self.give(request, length - found, hits)
        if is_given:
            request.num_computed_tokens = found
        yield "I5", f"whether {name} gets its slots", is_given, before
        yield from self.end_of_step({request} if is_given else (), before)

    def do_fork(self, parent, name):
        if parent in self.alive and name not in self.alive:
            before = self.draw()
            self.alive[name] = self.fork(self.alive[parent], name)
            yield from self.look("I1", before)

    def do_free(self, name):
        """It has ended."""
        if name in self.alive:
            before = self.draw()
            self.let_go(name)
            yield from self.look("I4", before)

    def let_go(self, name):
        request = self.alive.pop(name)
        self.requests.remove(request)
        request.status = type(request.status)("stop")
        self.kv.free(request)

    def do_preempt(self, name):
        if name in self.alive:
            before = self.draw()
            self.kv.free(self.alive[name])
            self.alive[name].num_computed_tokens = 0
            yield from self.look("I4", before)

    def do_slots_ahead(self, name, count):
        """Slots for tokens that come later; the price of all together is asked no more."""
        if name in self.alive and self.kv.get_block_ids(name):
            self.is_ahead, before = True, self.draw()
            is_given = self.give(self.alive[name], count)
            yield "I5", f"whether {name} gets slots for tokens to come: {count}", is_given, before
            yield from self.end_of_step((), before)

    def do_step(self, names, options=()):
        options = dict(options)
        before, ready = self.draw(), []
        for number, name in enumerate([*names, ""]):
            if number == min(options.get("after", len(names)), len(names)) and options.get("gone") in self.alive:
                self.let_go(options["gone"])
            if name in self.alive and self.kv.get_block_ids(name):
                request = self.alive[name]
                while len(request.all_token_ids) < request.num_computed_tokens + options.get("count", 1):
                    self.num_said += 1
                    request.append_output_token(ord("0") + self.num_said % 10)
                length = len(request.all_token_ids)
                needed = self.kv.num_blocks_needed(request, length)
                yield "I5", f"blocks needed for {length} tokens of {name}", needed, before
                is_given = self.give(request, length - request.num_computed_tokens)
                yield "I5", f"whether {name} gets its slots", is_given, before
                ready += [request] if is_given else []
        ready = [request for request in ready if request in self.requests]
        yield from self.end_of_step(ready, before, counts="gone" not in options)

    def end_of_step(self, ready, before, counts=True):
        """The copies are made, and then they all write. counts: nobody is gone, whose copy may be told or not."""
        self.told.clear()
        self.copy()
        stale = [copy for copy in self.told if copy[1] not in self.given]
        self.given.clear()
        yield "I2", "copies into blocks that nobody was given in this step", stale, before
        for request in ready:
            self.write(request, len(request.all_token_ids) - request.num_computed_tokens)
        yield from self.look("I2", before)
        if counts and not self.is_ahead:
            yield "I3", "how many copies were made", len(self.told), before

    def look(self, law, before):
        """What each reads, who holds each of its blocks, what is counted, what the cache finds; and all prices."""
        reads = {name: self.read(request) for name, request in self.alive.items()}
        yield law, "what each reads in its blocks", reads, before
        tables = {name: self.kv.get_block_ids(name) for name in self.alive}
        holders = {
            name: ["".join(sorted(who for who in tables if block in tables[who])) for block in table]
            for name, table in tables.items()
        }
        yield "I3" if law == "I2" else law, "who holds each block of each", holders, before
        yield "I4", "blocks whose count is wrong", self.counted_wrong(), before
        yield "I4", "how many blocks are free", self.kv.num_free_blocks, before
        if self.kv.enable_prefix_caching:
            self.texts |= {self.text(request): None for request in self.alive.values()}
            finds = {text: self.found(text) for text in list(self.texts)[-4:]}
            yield "I6", "what is read in the blocks that the prefix cache finds for a text", finds, before
        if not self.is_ahead:
            batch = [request for name, request in self.alive.items() if tables[name]]
            names, now = [request.request_id for request in batch], self.draw()
            needed = self.kv.num_blocks_to_append(batch)
            yield "I5", f"blocks needed for a token of each of {' '.join(names) or 'nobody'}", needed, now, now
            left = [request.request_id for request in batch]
            yield "I5", "the list that num_blocks_to_append() was given, after the call", left, now, now


@concept(
    "After any forks, writes and frees each request reads its own past, at the price that was computed.",
    invariant="I2",
    searches=True,
)
def test_any_calls(lab):
    walk(lab, plan_any, play_any, 75)
