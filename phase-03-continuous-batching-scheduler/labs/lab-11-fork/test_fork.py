"""Lab 03.11: one past, two futures; who gets a copy, what it costs, and that nobody else notices."""

from labkit import cases, check, concept


class Cache:
    """A manager, and what its blocks hold: one letter a slot. It copies and writes as the runner does."""

    def __init__(self, lab, blocks, size, caching=True):
        self.lab, self.size = lab, size
        self.kv = lab.ForkingKVCacheManager(blocks + 1, size, enable_prefix_caching=caching)
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
        return self.lab.Request(name, [ord(letter) for letter in text], self.lab.SamplingParams(max_tokens=64))

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
            see.true(f"{request.request_id} gets its slots (tokens: {count}); there is room", given is not None)
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
        wrong = []
        for block in self.kv.block_pool.blocks[1:]:
            holders = sum(block.block_id in table for table in tables)
            if block.ref_cnt != holders:
                wrong.append(f"{block.block_id}: ref_cnt {block.ref_cnt}, in {holders} tables")
        return wrong

    def draw(self):
        lines = []
        for request in self.requests:
            table = " ".join(map(str, self.kv.get_block_ids(request.request_id)))
            lines.append(f"{request.request_id:5} blocks {table or '-':9} reads {self.read(request)}")
        return "\n".join([*lines, f"free  {' '.join(map(str, self.kv.free_block_ids())) or '-'}"])


@concept("A fork takes no block: the child's table reads as its parent's.", invariant="I1")
@cases(
    partial=(2, "abc", [1, 2]),
    full=(2, "abcd", [1, 2]),
    less_than_a_block=(4, "abc", [1]),
    blocks_of_1=(1, "abc", [1, 2, 3]),
    blocks_of_3=(3, "abcdefg", [1, 2, 3]),
)
def test_a_child_reads_what_its_parent_reads(lab, case):
    size, text, table = case
    cache = Cache(lab, 6, size)
    a = cache.begin("a", text)
    see = check(cache.draw)
    b = cache.fork(a, "b")
    see("the block table of a, the parent", cache.kv.get_block_ids("a"), equals=table)
    see("the block table of b, the child", cache.kv.get_block_ids("b"), equals=table)
    see("how many blocks are free, of 6", cache.kv.num_free_blocks, equals=6 - len(table))
    see("what b reads", cache.read(b), equals=text)
    see("copies to make", cache.take(), equals=[])


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


@concept("Who forks from one that holds nothing holds nothing: no table, not even an empty one.", invariant="I1")
def test_nothing_to_share(lab):
    cache = Cache(lab, 4, 2)
    a = cache.make("a", "abc")
    cache.fork(a, "b")
    see = check(cache.draw)
    see("the block table of b", cache.kv.get_block_ids("b"), equals=[])
    see("whether the cache can be reset: nobody holds a table", cache.kv.reset_prefix_cache(), equals=True)


@concept(
    "Whoever writes into a shared block gets a block of its own; the others keep theirs.",
    invariant="I2",
    illustrates=True,
)
@cases(
    the_child=("b", {"a": [1, 2], "b": [1, 3]}),
    the_parent=("a", {"a": [1, 3], "b": [1, 2]}),
    one_of_three=("b", {"a": [1, 2], "b": [1, 3], "c": [1, 2]}),
    the_youngest_of_three=("c", {"a": [1, 2], "b": [1, 2], "c": [1, 3]}),
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


@concept("In one step everybody writes its own token, and reads its own past afterwards.", invariant="I2")
@cases(
    without_caching=("bca", 2, False),
    parent_first=("abc", 2, True),
    child_first=("cba", 2, True),
    blocks_of_1=("abc", 1, True),
    blocks_of_3=("bac", 3, True),
    blocks_of_4=("cab", 4, True),
)
def test_everybody_writes(lab, case):
    order, size, caching = case
    cache = Cache(lab, 24, size, caching)
    a = cache.begin("a", "vwxyz")
    b, c = cache.fork(a, "b", "c")
    requests = {"a": a, "b": b, "c": c}
    see = check(cache.draw)
    for letters in ("ABC", "DEF", "GHI", "JKL"):
        for name, letter in zip("abc", letters):
            requests[name].append_output_token(ord(letter))
        cache.step(*[requests[name] for name in order])
    for name, text in (("a", "vwxyzADGJ"), ("b", "vwxyzBEHK"), ("c", "vwxyzCFIL")):
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
)
def test_slots_given_ahead(lab, case):
    text, count, own, price = case
    cache = Cache(lab, 12, 2, caching=False)
    a = cache.begin("a", text)
    cache.kv.allocate_slots(a, 4)  # for d e f g, which come later
    b = cache.fork(a, "b")
    see = check(cache.draw)
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


@concept("A full block is not written any more: it stays shared, and is never copied.", invariant="I3")
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


@concept("The last holder of a block writes in place, however the others went.", invariant="I3")
@cases(the_others_wrote="write", the_others_are_gone="free", one_of_each="both")
def test_the_last_holder_writes_in_place(lab, case):
    cache = Cache(lab, 4, 2)
    a = cache.begin("a", "abc")
    b, c = cache.fork(a, "b", "c")
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


@concept("The price counts a block for each copy, and asking for it changes nothing.", invariant="I5")
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
    "For all together it is less than the sum: of those who share a partial block one writes in place.", invariant="I5"
)
@cases(
    one=([("abcdef", 0)], 0),
    two=([("abcdef", 1)], 1),
    three=([("abcdef", 2)], 2),
    full=([("abcdefgh", 2)], 3),
    two_families=([("abcdef", 2), ("mnop", 1)], 4),
    three_families=([("abcdef", 2), ("mnopqr", 1), ("stu", 0)], 3),
    nobody=([], 0),
)
def test_price_of_all_together(lab, case):
    families, expected = case
    cache = Cache(lab, 16, 4)
    for text, num_children in families:
        parent = cache.begin(text[0], text)
        for i in range(num_children):
            cache.fork(parent, f"{text[0]}{i}")
    see = check(cache.draw)
    needed = cache.kv.num_blocks_to_append(cache.requests)
    see("blocks needed for a token each, block size 4", needed, equals=expected)
    if cache.requests:
        needed = cache.kv.num_blocks_to_append(cache.requests[::-1])
        see("blocks needed, asked in the other order", needed, equals=expected)


@concept("All or nothing: one block too few gives None, and nobody notices that somebody asked.", invariant="I5")
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


@concept("A copy is told once, for the coming step: a list that was handed out does not change.", invariant="I2")
def test_copies_are_told_once(lab):
    cache = Cache(lab, 8, 2)
    a = cache.begin("a", "abc")
    b, c = cache.fork(a, "b", "c")
    see = check(cache.draw)
    for request in (b, c):
        request.append_output_token(ord("X"))
        cache.kv.allocate_slots(request, 1)
    first = cache.kv.take_copies()
    see("copies to make after b and c got a slot", sorted(map(tuple, first)), equals=[(2, 3), (2, 4)])
    see("copies to make when asked again", cache.take(), equals=[])
    d = cache.fork(a, "d")
    d.append_output_token(ord("X"))
    cache.kv.allocate_slots(d, 1)
    see("the first list, after d got a slot, too", sorted(map(tuple, first)), equals=[(2, 3), (2, 4)])
    see("copies to make after d got a slot", cache.take(), equals=[(2, 5)])


@concept("Who is admitted with a prefix hit gets the hit's blocks and pays for them, as ever.", invariant="I5")
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
def test_a_child_that_had_another_past(lab):
    cache = Cache(lab, 12, 2)
    a, b = cache.begin("a", "abc"), cache.begin("b", "vwxyz")
    see = check(cache.draw)
    cache.kv.free(b)
    b.all_token_ids = list(a.all_token_ids)  # as a beam that is given up for a better one
    b.num_computed_tokens = 3
    cache.kv.fork(a, b)
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
