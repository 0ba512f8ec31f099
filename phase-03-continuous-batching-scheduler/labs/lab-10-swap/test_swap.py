"""Lab 03.10: what goes to main memory and comes back; what it costs; and what happens when a step fails."""

from labkit import cases, check, concept, far, search, walk


class Memory:
    """A manager, and what its blocks and CPU blocks hold: one letter a slot. It copies and writes as the runner does.

    The methods are what the scheduler does, in the order of contract.md; planned: who computes in the coming step.
    """

    def __init__(self, lab, blocks=8, cpu_blocks=8, size=2, caching=False, **options):
        self.lab, self.size, self.blocks, self.cpu_blocks = lab, size, blocks, cpu_blocks
        options = {"enable_prefix_caching": caching, "num_cpu_blocks": cpu_blocks, **options}
        self.kv = lab.OffloadingKVCacheManager(blocks + 1, size, **options)
        self.pool = self.kv.connector.pool
        self.device, self.cpu = {}, {}  # block: its letters
        self.requests, self.planned = [], []

    def begin(self, name, text, count=None):
        """A request that knows these letters; `count` of them are computed, all but the last one if it is not said."""
        request = self.make(name, text)
        self.requests.append(request)
        self.admit(request, len(text) - 1 if count is None else count)
        self.run()
        return request

    def make(self, name, text):
        return self.lab.Request(name, [ord(letter) for letter in text], self.lab.SamplingParams(max_tokens=64))

    def admit(self, request, count=1):
        """Whether it could be admitted, to compute so many tokens."""
        hits, found = self.kv.get_computed_blocks(request)
        given = self.kv.allocate_slots(request, count, hits)
        if given is None:
            return False
        request.num_computed_tokens = found
        if not request.num_preemptions:
            request.num_cached_tokens = found
        self.planned.append((request, count))
        return True

    def say(self, request, letter):
        """It knows one token more, and is to compute the one before."""
        request.append_output_token(ord(letter))
        given = self.kv.allocate_slots(request, 1)
        see = check(self.draw)
        see.true(f"{request.request_id} gets a slot for one token more: there is room", given is not None, "None")
        self.planned.append((request, 1))

    def preempt(self, request):
        self.kv.free(request)
        request.num_computed_tokens = 0
        request.num_preemptions += 1

    def end(self, request):
        request.status = type(request.status)("abort")
        self.kv.free(request)

    def copy(self):
        """The copies of the step, which the manager tells, are made; returns them."""
        plan = self.kv.begin_step()
        out, into = (sorted(map(tuple, pairs)) for pairs in (plan.swap_out, plan.swap_in))
        self.cpu |= {cpu: self.device.get(block, "?" * self.size) for block, cpu in out}
        self.device |= {block: self.cpu.get(cpu, "?" * self.size) for cpu, block in into}
        return out, into

    def write(self):
        for request, count in self.planned:
            table, start = self.kv.get_block_ids(request.request_id), request.num_computed_tokens
            for i, letter in enumerate(self.text(request)[start : start + count], start):
                if i // self.size < len(table):
                    block, offset = table[i // self.size], i % self.size
                    letters = self.device.get(block, "?" * self.size)
                    self.device[block] = letters[:offset] + letter + letters[offset + 1 :]

    def run(self):
        """A step that goes well; returns its copies."""
        copies = self.copy()
        self.write()
        self.kv.end_step(self.lab.KVResult())
        for request, count in self.planned:
            request.num_computed_tokens += count
        self.planned = []
        return copies

    def fail(self, *, copied=False):
        """A step that raises, after its copies or before."""
        if copied:
            self.copy()
        for request, _ in reversed(self.planned):
            if not request.is_finished:
                self.preempt(request)
        self.kv.end_step(None)
        self.planned = []

    def text(self, request):
        return "".join(map(chr, request.all_token_ids))

    def read(self, request):
        """The letters that the request's computed tokens find in its blocks."""
        table = self.kv.get_block_ids(request.request_id)
        return self.letters(table, request.num_computed_tokens)

    def letters(self, table, length):
        return "".join(self.device.get(block, "?" * self.size) for block in table).ljust(length, "?")[:length]

    def found(self, text):
        """What somebody who knows these letters would read in the blocks that the prefix cache finds."""
        hits, length = self.kv.get_computed_blocks(self.make("probe", text + "!"))
        return self.letters([block.block_id for block in hits], length)

    def in_pool(self):
        """How many CPU blocks are held."""
        return self.cpu_blocks - self.pool.num_free_blocks

    def draw(self):
        pool, lines = self.pool, []
        for request in self.requests:
            table, held = self.kv.get_block_ids(request.request_id), pool.get_block_ids(request.request_id)
            reads = self.read(request) if table else "-"
            lines.append(f"{request.request_id}  blocks {join(table):13} CPU blocks {join(held):9} reads {reads}")
        mode = f'preemption_mode "{self.kv.preemption_mode}", blocks of {self.size}'
        free = f"free {self.kv.num_free_blocks} of {self.blocks} blocks"
        return "\n".join([mode, *lines, f"{free}, {pool.num_free_blocks} of {self.cpu_blocks} CPU blocks"])


def join(numbers):
    return " ".join(map(str, numbers)) or "-"


# --- what it costs ------------------------------------------------------------------------------------------------

NOTHING = {"seconds_per_token": 0, "seconds_per_pair": 0, "bytes_per_token": 0, "bandwidth": 1, "seconds_per_copy": 0}


def cost_of(lab, figures):
    return lab.PreemptionCost(**{**NOTHING, **figures})


@concept(
    "To compute again takes a time for each token, and one for each pair of a query and a key: half of n times n.",
    invariant="I1",
)
@cases(
    tokens_alone=({"seconds_per_token": 2}, {0: 0, 1: 2, 10: 20}),
    pairs_alone=({"seconds_per_pair": 2}, {1: 1, 2: 4, 10: 100}),
    both=({"seconds_per_token": 2, "seconds_per_pair": 0.5}, {1: 2.25, 4: 12, 10: 45}),
    copies_do_not_count=({"seconds_per_token": 2, "seconds_per_copy": 8, "bytes_per_token": 4}, {10: 20}),
    very_many_tokens=({"seconds_per_token": 2, "seconds_per_pair": 2}, {2**25: 2**50 + 2**26}),
)
def test_seconds_to_compute_again(lab, case):
    figures, expected = case
    cost = cost_of(lab, figures)
    see = check(lambda: "\n".join(f"{name} {value}" for name, value in figures.items()))
    for num_tokens, seconds in expected.items():
        see(f"seconds to compute n tokens again, n = {num_tokens}", cost.recompute(num_tokens), equals=seconds)


@concept(
    "To swap is two copies: each has a price of its own, however little it moves, and one for each byte.",
    invariant="I1",
    illustrates=True,
)
@cases(
    bytes_alone=({"bytes_per_token": 8, "bandwidth": 2}, {0: 0, 1: 8, 10: 80}),
    a_fast_bus=({"bytes_per_token": 8, "bandwidth": 32}, {1: 0.5, 10: 5}),
    copies_alone=({"seconds_per_copy": 3}, {1: 6, 10: 6}),
    both=({"bytes_per_token": 8, "bandwidth": 4, "seconds_per_copy": 3}, {1: 10, 10: 46}),
)
def test_seconds_to_swap(lab, case):
    figures, expected = case
    cost = cost_of(lab, figures)
    see = check(lambda: "\n".join(f"{name} {value}" for name, value in figures.items()))
    for num_tokens, seconds in expected.items():
        see(f"seconds to swap n tokens out and back, n = {num_tokens}", cost.swap(num_tokens), equals=seconds)


@concept(
    "The longer the context, the more speaks for swapping: the fixed price of a copy is paid once.", invariant="I1"
)
@cases(
    four_a_token=(
        {"seconds_per_token": 4, "seconds_per_copy": 4, "bytes_per_token": 1}, {1: False, 3: False, 4: False, 5: True}
    ),
    pairs_alone=({"seconds_per_pair": 2, "seconds_per_copy": 4, "bytes_per_token": 1}, {3: False, 4: False, 5: True}),
    a_slow_bus=({"seconds_per_token": 1, "bytes_per_token": 1}, {1: False, 1000: False}),
    nothing_to_copy=({"seconds_per_token": 1}, {1: True, 1000: True}),
    an_8b_model_on_an_h100=(
        {
            "seconds_per_token": 30e-6, "seconds_per_pair": 1.1e-9, "bytes_per_token": 131072, "bandwidth": 64e9,
            "seconds_per_copy": 1e-3,
        },
        {10: False, 77: False, 78: True, 1000: True},
    ),
)  # fmt: skip
def test_which_is_cheaper(lab, case):
    figures, expected = case
    cost = cost_of(lab, figures)
    see = check(lambda: "\n".join(f"{name} {value}" for name, value in figures.items()))
    for num_tokens, cheaper in expected.items():
        see(f"whether swapping n tokens is cheaper, n = {num_tokens}", cost.swap_is_cheaper(num_tokens), equals=cheaper)


# --- out and back -------------------------------------------------------------------------------------------------


@concept(
    "All that is computed goes out, the block it has just begun too; a block in which nothing is computed stays.",
    invariant="I2",
)
@cases(
    a_block=(2, "abcde", 2, 1),
    a_block_and_one=(2, "abcde", 3, 2),
    two_blocks=(2, "abcde", 4, 2),
    less_than_a_block=(4, "abc", 2, 1),
    blocks_of_1=(1, "abcd", 3, 3),
    blocks_of_3=(3, "abcdefgh", 7, 3),
    blocks_of_4=(4, "abcdefghi", 8, 2),
    in_its_prompt=(2, "abcdefghijkl", 5, 3),
)
def test_what_goes_out(lab, case):
    size, text, count, num_blocks = case
    memory = Memory(lab, size=size)
    a = memory.begin("a", text, count)
    table = memory.kv.get_block_ids("a")
    memory.kv.allocate_slots(a, len(text) - count)  # slots for the rest, not yet computed
    see = check(memory.draw)
    memory.preempt(a)
    out, into = memory.copy()
    see(
        f"blocks that go out, of pairs (block, CPU block): {count} tokens are computed, in blocks of {size}",
        [block for block, _ in out],
        equals=table[:num_blocks],
    )
    see("how many CPU blocks they go to", len({cpu for _, cpu in out}), equals=num_blocks)
    see("how many CPU blocks are held", memory.in_pool(), equals=num_blocks)
    see("what comes in", into, equals=[])
    see("how many blocks are free on the device, of 8", memory.kv.num_free_blocks, equals=8)


@concept(
    "It comes back to where it was: the tokens in the CPU pool need no computing.", invariant="I3", illustrates=True
)
@cases(
    less_than_a_block=(4, "abc", 2),
    a_block=(2, "abc", 2),
    in_a_block=(2, "abcdef", 5),
    two_blocks=(3, "abcdefg", 6),
    blocks_of_1=(1, "abcd", 3),
    blocks_of_4=(4, "abcdefghij", 9),
    blocks_of_16=(16, "abcdefghijklmnopqrst", 19),
    in_its_prompt=(2, "abcdefgh", 3),
    in_its_prompt_at_a_block=(2, "abcdefgh", 4),
)
def test_it_comes_back_where_it_was(lab, case):
    size, text, count = case
    memory = Memory(lab, size=size)
    a = memory.begin("a", text, count)
    memory.preempt(a)
    memory.run()
    other = memory.begin("b", "VWXYZ")  # into the blocks that a had
    see = check(memory.draw)
    hits, found = memory.kv.get_computed_blocks(a)
    see(f"tokens that a need not compute, {count} were computed", found, equals=count)
    see("blocks of it that are on the device", len(hits), equals=0)
    memory.admit(a)
    memory.run()
    see("what a reads after one token more", memory.read(a), equals=text[: count + 1])
    see("what b reads, who has blocks that a had", memory.read(other), equals="VWXY")
    held = -(-(count + 1) // size)
    see("how many blocks a holds", len(memory.kv.get_block_ids("a")), equals=held)


@concept(
    'A victim goes the cheaper way: with "swap" always out, with "cheaper" only when that costs less.', invariant="I2"
)
@cases(swap_a_short_one=("swap", 4, 2), swap_a_long_one=("swap", 5, 3), not_a_short_one=("cheaper", 4, 0),
       a_long_one=("cheaper", 5, 3))  # fmt: skip
def test_which_way_a_victim_goes(lab, case):
    mode, count, expected = case
    cost = {**NOTHING, "seconds_per_token": 1, "seconds_per_copy": 2}
    memory = Memory(lab, preemption_mode=mode, preemption_cost=cost)
    a = memory.begin("a", "abcdefgh", count)
    see = check(memory.draw)
    memory.preempt(a)
    out, _ = memory.run()
    see(f'blocks that go out with "{mode}": {count} tokens computed, from 5 on swapping is cheaper', len(out),
        equals=expected)  # fmt: skip
    _, found = memory.kv.get_computed_blocks(a)
    see("tokens that a need not compute", found, equals=count if expected else 0)


@concept("All or nothing: a request that does not fit into the CPU pool as a whole is computed again.", invariant="I2")
@cases(
    no_pool=(0, False, 0),
    one_too_few=(2, False, 0),
    exactly=(3, False, 3),
    one_too_few_beside_another=(4, True, 0),
    exactly_beside_another=(5, True, 3),
)
def test_who_does_not_fit(lab, case):
    cpu_blocks, is_used, expected = case
    memory = Memory(lab, cpu_blocks=cpu_blocks)
    if is_used:
        memory.preempt(memory.begin("b", "VWXYZ"))  # two blocks
        memory.run()
    a, held = memory.begin("a", "abcdef"), memory.in_pool()
    see = check(memory.draw)
    memory.preempt(a)
    see("CPU blocks for the three blocks of a", memory.in_pool() - held, equals=expected)
    _, found = memory.kv.get_computed_blocks(a)
    see("tokens that a need not compute, of 5", found, equals=5 if expected else 0)
    out, _ = memory.run()
    see("how many blocks go out", len(out), equals=expected)
    memory.admit(a, 6 - found)
    memory.run()
    see("what a reads when it has caught up", memory.read(a), equals="abcdef")


@concept(
    "Each in its own place: what two of them swap out in one step is copied side by side.",
    invariant="I2",
    illustrates=True,
)
def test_two_victims_of_a_step(lab):
    memory = Memory(lab)
    a, b = memory.begin("a", "abcde"), memory.begin("b", "vwxyz")
    see = check(memory.draw)
    memory.preempt(b)
    memory.preempt(a)
    out, _ = memory.run()
    see("how many CPU blocks are copied to, for four blocks", len({cpu for _, cpu in out}), equals=4)
    for request, text in ((a, "abcd"), (b, "vwxy")):
        memory.admit(request)
        memory.run()
        see(f"what {request.request_id} reads when it is back", memory.read(request)[:4], equals=text)


@concept("However many go out in one step and come back in another, and however long they are, each has its own.",
         invariant="I3")  # fmt: skip
@cases(many=(far(60), 4), a_long_one=(1, far(300)))
def test_a_crowd_comes_back(lab, case):
    num, length = case
    blocks = num * (length // 2 + 1)
    memory = Memory(lab, blocks, blocks)
    requests = [memory.begin(f"r{i}", "".join(chr(200 + i + j) for j in range(length))) for i in range(num)]
    for request in requests:
        memory.preempt(request)
    memory.run()
    see = check()
    for request in requests:
        memory.admit(request)
    external = [memory.kv.num_external_tokens(request) for request in requests]
    about = f"requests that come back: {num}, each with {length - 1} tokens"
    see(f"num_external_tokens of each; {about}", external, equals=[length - 1] * num)
    memory.run()
    reads = [letter for request in requests for letter in memory.read(request)]
    expected = [letter for request in requests for letter in memory.text(request)]
    see(f"what they read, one after the other, after one token more; {about}", reads, equals=expected)


# --- back, and what was found meanwhile ---------------------------------------------------------------------------


@concept(
    "A hit brings its own blocks: room is needed for what lies behind it, and for what is computed.",
    invariant="I4",
    illustrates=True,
)
@cases(all_was_found=3, two_blocks_were_found=2, one_block_was_found=1)
def test_room_behind_a_hit(lab, case):
    memory = Memory(lab, blocks=4, caching=True)
    a = memory.begin("a", "abcdefg", 6)
    memory.preempt(a)
    memory.run()
    num_taken = (4 - case) * 2
    memory.end(memory.begin("b", "0123456789"[: num_taken + 1], num_taken))  # into all blocks but the hits, and gone
    see = check(memory.draw)
    what = f"whether a can come back: of its 3 blocks {case} are found, and one more is for the next token"
    see(what, memory.admit(a), equals=True)
    see("how many blocks a holds", len(memory.kv.get_block_ids("a")), equals=4)


@concept("What the prefix cache finds is not copied: only what lies behind it comes from the CPU pool.", invariant="I3")
@cases(
    all=(2, "abcdefg", 3, []),
    all_but_what_it_had_begun=(2, "abcdef", 2, ["e?"]),
    one_block=(2, "abcdef", 1, ["cd", "e?"]),
    none=(2, "abcdef", 0, ["ab", "cd", "e?"]),
    in_its_prompt=(2, "abcdefghijklm", 1, ["cd", "e?"], 5),
    blocks_of_1=(1, "abcde", 2, ["c", "d"]),
    blocks_of_3=(3, "abcdefghi", 1, ["def", "gh?"]),
)
def test_only_what_is_not_on_the_device_comes_in(lab, case):
    size, text, num_hits, expected, *prompt = case
    count = prompt[0] if prompt else len(text) - 1
    num_blocks = -(-(count + 1) // size)
    memory = Memory(lab, blocks=num_blocks, size=size, caching=True)
    a = memory.begin("a", text, count)
    table = memory.kv.get_block_ids("a")
    memory.preempt(a)
    memory.run()
    num_taken = (num_blocks - num_hits) * size
    memory.end(memory.begin("b", "0123456789"[: num_taken + 1], num_taken))  # into all blocks but the hits, and gone
    see = check(memory.draw)
    hits, found = memory.kv.get_computed_blocks(a)
    see("blocks that the prefix cache finds for a", [block.block_id for block in hits], equals=table[:num_hits])
    see(f"tokens that a need not compute, {count} were computed", found, equals=count)
    see.true(f"a can come back: {num_blocks} blocks are enough for {count} tokens and one", memory.admit(a), "refused")
    _, into = memory.run()
    see("what is copied in", sorted(memory.cpu.get(cpu, "nothing") for cpu, _ in into), equals=expected)
    see("what a reads after one token more", memory.read(a), equals=text[: count + 1])


@concept("Of the two places the one counts that has more: the device may know more than the pool.", invariant="I3")
def test_a_hit_beyond_the_pool(lab):
    memory = Memory(lab, caching=True)
    a = memory.begin("a", "abcdefgh", 3)
    memory.preempt(a)
    memory.run()
    memory.end(memory.begin("b", "abcdefgh"))  # the same prompt, computed further
    see = check(memory.draw)
    _, found = memory.kv.get_computed_blocks(a)
    see("tokens that a need not compute: 3 are in the pool, 6 on the device", found, equals=6)
    memory.admit(a)
    _, into = memory.run()
    see("what comes in", into, equals=[])
    see("what a reads after one token more", memory.read(a), equals="abcdefg")
    see("how many blocks a holds", len(memory.kv.get_block_ids("a")), equals=4)


@concept("A request that is back needs no main memory, also where nothing had to be copied in.", invariant="I5")
def test_back_without_a_copy(lab):
    memory = Memory(lab, caching=True)
    a = memory.begin("a", "abcdefg", 6)
    memory.preempt(a)
    memory.run()
    see = check(memory.draw)
    memory.admit(a)
    _, into = memory.run()
    see("what comes in: all of it was found on the device", into, equals=[])
    see("how many CPU blocks are held", memory.in_pool(), equals=0)


@concept("The connector alone: what a failed step was to load is there as before, and in no copy of the next step.",
         invariant="I6")  # fmt: skip
def test_a_load_that_failed(lab):
    connector = Memory(lab).kv.connector
    a = lab.Request("a", [*range(6)], lab.SamplingParams())
    a.num_computed_tokens = 5
    connector.save(a, [3, 4, 5])
    connector.begin_step()
    connector.end_step(lab.KVResult())
    a.num_computed_tokens = 0
    connector.load(a, [7, 8], 1)
    see = check(lambda: f"CPU blocks of a: {join(connector.pool.get_block_ids('a'))}")
    see("copies in that the step has which fails", len(connector.begin_step().swap_in), equals=2)
    connector.end_step(None)
    for when in ("the failed step", "a step without a"):
        found = connector.get_num_new_matched_tokens(a, 2).num_tokens
        see(f"tokens of a behind the first 2, of 5, after {when}", found, equals=3)
        see(f"copies in, after {when}", list(connector.begin_step().swap_in), equals=[])
        connector.end_step(lab.KVResult())


@concept("Room is for what comes back and for what is to be computed: one block too few is None.", invariant="I4")
@cases(
    exactly=(2, 1, 5, True),
    one_too_few=(2, 1, 6, False),
    more_to_compute_exactly=(2, 3, 4, True),
    more_to_compute_one_too_few=(2, 3, 5, False),
    nothing_is_free=(2, 1, 8, False),
    blocks_of_4_exactly=(4, 3, 6, True),
    blocks_of_4_one_too_few=(4, 4, 6, False),
)
def test_room_on_the_device(lab, case):
    size, count, used, fits = case
    memory = Memory(lab, size=size)
    a = memory.begin("a", "abcdefghijk", 5)
    memory.preempt(a)
    memory.run()
    b = memory.begin("b", "V" * (used * size + 1), used * size)
    free = memory.kv.free_block_ids()
    see = check(memory.draw)
    what = f"whether 5 tokens, block size {size}, can come back and {count} be computed; {8 - used} blocks are free"
    see(what, memory.admit(a, count), equals=fits)
    if not fits:
        see("blocks that a holds", memory.kv.get_block_ids("a"), equals=[])
        see("free blocks, front first", memory.kv.free_block_ids(), equals=free)
        see("num_external_tokens: nothing is to be loaded", memory.kv.num_external_tokens(a), equals=0)
        see("copies that are promised", [*map(list, memory.run())], equals=[[], []])
        see("how many CPU blocks are held, as before", memory.in_pool(), equals=-(-5 // size))
        memory.end(b)
        see.true("a can come back when b is gone", memory.admit(a, count), "refused")
    memory.run()
    see("what a reads", memory.read(a), equals="abcdefghijk"[: 5 + count])


@concept("Copies out come before those in: a block that is given up may be filled in the same step.", invariant="I4")
@cases(by_the_same="a", by_another="b")
def test_out_and_in_again_in_one_step(lab, case):
    memory = Memory(lab, blocks=4)
    if case == "b":
        memory.preempt(memory.begin("b", "VWXYZ"))
        memory.run()
    a = memory.begin("a", "abcdef")
    memory.preempt(a)
    back = memory.requests[0]
    see = check(memory.draw)
    see.true(f"{case} can come back: all blocks are free", memory.admit(back), "refused")
    memory.run()
    see(f"what {case} reads", memory.read(back), equals="VWXYZ" if case == "b" else "abcdef")
    see("how many CPU blocks are held", memory.in_pool(), equals=3 if case == "b" else 0)
    if case == "b":
        memory.end(back)
        memory.admit(a)
        memory.run()
        see("what a reads when it is back", memory.read(a), equals="abcdef")


@concept("A request that was never swapped out is treated as usual, with its hits and further chunks.", invariant="I3")
def test_who_was_never_swapped_out(lab):
    memory = Memory(lab, caching=True)
    memory.end(memory.begin("a", "abcde"))
    see = check(memory.draw)
    b = memory.make("b", "abcdWXYZ")
    memory.requests.append(b)
    hits, found = memory.kv.get_computed_blocks(b)
    see("tokens of b that are found, (in blocks, in all)", (2 * len(hits), found), equals=(4, 4))
    memory.admit(b, 2)
    memory.run()
    see("what b reads", memory.read(b), equals="abcdWX")
    memory.planned.append((b, 2))
    see("new blocks for its next two tokens", len(memory.kv.allocate_slots(b, 2)), equals=1)
    copies = memory.run()
    see("what b reads", memory.read(b), equals="abcdWXYZ")
    see("copies that were made", [*map(list, copies)], equals=[[], []])


@concept("What comes from main memory is no hit of the prefix cache, and is counted for one step.", invariant="I3")
@cases(nothing_was_found=0, one_block_was_found=1, two_blocks_were_found=2)
def test_what_is_no_hit(lab, case):
    memory = Memory(lab, blocks=4, caching=True)
    a = memory.begin("a", "abcdefgh", 7)
    memory.preempt(a)
    memory.run()
    num_taken = (4 - case) * 2
    memory.end(memory.begin("b", "0123456789"[: num_taken + 1], num_taken))  # into all blocks but the hits, and gone
    see = check(memory.draw)
    memory.admit(a)
    external = memory.kv.num_external_tokens(a)
    see("num_external_tokens, 7 need no computing", external, equals=7 - 2 * case)
    memory.run()
    see("num_external_tokens when the step has ended", memory.kv.num_external_tokens(a), equals=0)


# --- when a step has gone well ------------------------------------------------------------------------------------


@concept(
    "A request that is back leaves the CPU pool once the step is confirmed; one that waits keeps its place.",
    invariant="I5",
)
@cases(one_after_the_other=[["a"], ["b"]], the_last_first=[["b"], ["a"]], both_in_one_step=[["a", "b"]])
def test_cpu_blocks_are_kept_until_they_are_not_needed(lab, case):
    memory = Memory(lab)
    requests, blocks = {"a": memory.begin("a", "abcdef"), "b": memory.begin("b", "VWXYZ")}, {"a": 3, "b": 2}
    see = check(memory.draw)
    for request in requests.values():
        memory.preempt(request)
    memory.run()
    see("CPU blocks held while both wait, 3 and 2", memory.in_pool(), equals=5)
    memory.run()
    see("CPU blocks held a step later", memory.in_pool(), equals=5)
    held = 5
    for names in case:
        for name in names:
            memory.admit(requests[name])
        who = " and ".join(names)
        see(f"CPU blocks held before the step of {who} is confirmed", memory.in_pool(), equals=held)
        memory.run()
        held -= sum(blocks[name] for name in names)
        see(f"CPU blocks held when {who} came back", memory.in_pool(), equals=held)


@concept("A copy belongs to one step: in the next one its blocks may belong to another request.", invariant="I5")
def test_copies_are_made_once(lab):
    memory = Memory(lab)
    a = memory.begin("a", "abcdef")
    see = check(memory.draw)
    memory.preempt(a)
    see("copies of the step in which a gives way, (out, in)", [*map(len, memory.run())], equals=[3, 0])
    see("copies of the next step, (out, in)", [*map(len, memory.run())], equals=[0, 0])
    memory.admit(a)
    see("copies of the step in which a comes back, (out, in)", [*map(len, memory.run())], equals=[0, 3])
    see("copies of the next step, (out, in)", [*map(len, memory.run())], equals=[0, 0])


@concept(
    "A request that is back runs as usual: it grows, and may go out again with all that it has by then.", invariant="I5"
)
@cases(plain=False, with_prefix_caching=True)
def test_out_and_back_again_and_again(lab, case):
    memory = Memory(lab, caching=case)
    a, text = memory.begin("a", "abc"), "abc"
    see = check(memory.draw)
    for turn, letters in enumerate(("de", "fgh", "i", "jklm")):
        memory.preempt(a)
        memory.run()
        see(f"CPU blocks for the {len(text) - 1} tokens that a has computed", memory.in_pool(), equals=len(text) // 2)
        memory.end(memory.begin("b", str(turn) * 17))  # into every block of the device, and gone
        _, found = memory.kv.get_computed_blocks(a)
        see(f"tokens that a need not compute, of {len(text)}", found, equals=len(text) - 1)
        see.true("a can come back: all blocks are free", memory.admit(a), "refused")
        memory.run()
        for letter in letters[:-1]:
            text += letter
            memory.say(a, letter)
            memory.run()
        see("what a reads", memory.read(a), equals=text)
        see("CPU blocks held while a runs", memory.in_pool(), equals=0)
        text += letters[-1]
        a.append_output_token(ord(letters[-1]))


@concept(
    "The price is that of the computed tokens, wherever they came from and however often their request gave way.",
    invariant="I2",
    illustrates=True,
)
@cases(swap=("swap", 2), cheaper=("cheaper", 0))
def test_what_the_price_is_of(lab, case):
    mode, expected = case
    cost = {**NOTHING, "seconds_per_token": 1, "seconds_per_copy": 2}
    memory = Memory(lab, caching=True, preemption_mode=mode, preemption_cost=cost)
    memory.begin("b", "abcdefg", 4)
    a = memory.begin("a", "abWXYZVU", 2)
    see = check(memory.draw)
    for time in ("first", "second", "third", "fourth"):
        memory.preempt(a)
        out, _ = memory.run()
        see(f'blocks that go out with "{mode}" the {time} time: 4 tokens are computed, 2 of them were found at first, '
            "and from 5 on swapping is cheaper", len(out), equals=expected)  # fmt: skip
        _, found = memory.kv.get_computed_blocks(a)
        if found < 4:
            memory.admit(a, 4 - found)
        else:
            memory.admit(a)
            a.num_computed_tokens = 3
        memory.run()


# --- when a step has failed ---------------------------------------------------------------------------------------


@concept("What a failed step was to copy out may never have arrived: it is computed again.", invariant="I6")
@cases(before_its_copies=False, after_its_copies=True)
def test_nobody_trusts_what_a_failed_step_copied_out(lab, case):
    memory = Memory(lab)
    a, b = memory.begin("a", "abcde"), memory.begin("b", "VWXYZ")
    memory.preempt(a)
    memory.run()
    see = check(memory.draw)
    memory.preempt(b)
    memory.fail(copied=case)
    see("CPU blocks held: a went out in an earlier step", memory.in_pool(), equals=2)
    for request, number in ((b, 0), (a, 4)):
        _, found = memory.kv.get_computed_blocks(request)
        see(f"tokens that {request.request_id} need not compute, of 5", found, equals=number)
        memory.admit(request, 5 - number)
    see("copies of the next step, (out, in)", [*map(len, memory.run())], equals=[0, 2])
    for request, text in ((a, "abcde"), (b, "VWXYZ")):
        see(f"what {request.request_id} reads", memory.read(request), equals=text)


@concept("What a failed step was to copy in is in the pool as before, and comes in once more.", invariant="I6")
@cases(before_its_copies=(False, False), after_its_copies=(False, True), with_two_blocks_on_the_device=(True, False))
def test_who_was_coming_back_comes_back_later(lab, case):
    caching, copied = case
    memory = Memory(lab, caching=caching)
    a = memory.begin("a", "abcdef")
    memory.preempt(a)
    memory.run()
    see = check(memory.draw)
    for attempt in (1, 2, 3):
        memory.admit(a)
        memory.fail(copied=copied)
        see(f"CPU blocks held after failed attempt {attempt}", memory.in_pool(), equals=3)
        see("blocks that a holds on the device", memory.kv.get_block_ids("a"), equals=[])
        see("copies of a step in which a only waits, (out, in)", [*map(len, memory.run())], equals=[0, 0])
        see("CPU blocks held after that step", memory.in_pool(), equals=3)
    memory.begin("b", "VWXYZ")
    memory.admit(a)
    memory.run()
    see("what a reads at last", memory.read(a), equals="abcdef")
    see("CPU blocks held", memory.in_pool(), equals=0)


@concept(
    "A request that only ran when a step failed is not in the pool: its copies out are never made.",
    invariant="I6",
    illustrates=True,
)
def test_who_ran_when_a_step_failed(lab):
    memory = Memory(lab)
    a, b = memory.begin("a", "abcde"), memory.begin("b", "VWXYZ")
    see = check(memory.draw)
    memory.say(a, "f")
    memory.say(b, "0")
    memory.fail()
    see("CPU blocks held", memory.in_pool(), equals=0)
    found = [memory.kv.get_computed_blocks(request)[1] for request in (a, b)]
    see("tokens that a and b need not compute", found, equals=[0, 0])
    see("copies of the next step, (out, in)", [*map(len, memory.run())], equals=[0, 0])


@concept(
    "Blocks that were to be filled are not: after a failed step no request may find them in the prefix cache.",
    invariant="I6",
)
@cases(
    nothing_was_found=(0, "", False),
    one_block_was_found=(1, "ab", False),
    two_blocks_were_found=(2, "abcd", False),
    its_request_was_aborted=(1, "ab", True),
    the_last_block_is_full=(2, "abcd", False, 6),
    it_is_of_its_output=(2, "abcd", False, 7, "efgh"),
)
def test_what_was_not_copied_in_is_not_found(lab, case):
    num_hits, expected, is_aborted, count, said = (*case, *(7, "")[len(case) - 3 :])
    memory = Memory(lab, blocks=4, caching=True)
    a = memory.begin("a", "abcdefgh"[: 8 - len(said)], count - len(said))
    for letter in said:
        memory.say(a, letter)
        memory.run()
    memory.preempt(a)
    memory.run()
    num_taken = (4 - num_hits) * 2
    memory.end(memory.begin("b", "0123456789"[: num_taken + 1], num_taken))  # into all blocks but the hits, and gone
    see = check(memory.draw)
    memory.admit(a)
    if is_aborted:
        memory.end(a)
    memory.fail()
    see(
        "what is read in the blocks that the prefix cache finds for abcdefgh", memory.found("abcdefgh"), equals=expected
    )
    see("CPU blocks held for a", memory.in_pool(), equals=0 if is_aborted else -(-count // 2))
    if is_aborted:
        return
    memory.admit(a)
    memory.run()
    see("what a reads when it is back", memory.read(a), equals="abcdefgh"[: count + 1])


@concept(
    "Of several that were coming in when a step failed none may be found: each has names to withdraw.",
    invariant="I6",
    illustrates=True,
)
def test_several_were_coming_in(lab):
    memory = Memory(lab, caching=True)
    requests = [memory.begin(name, text) for name, text in (("a", "abcde"), ("b", "VWXYZ"))]
    for request in requests:
        memory.preempt(request)
    memory.run()
    memory.end(memory.begin("c", "0" * 17))  # into every block of the device, and gone
    see = check(memory.draw)
    for request in requests:
        memory.admit(request)
    memory.fail()
    for text in ("abcd", "VWXY"):
        see(f"what is read in the blocks that the prefix cache finds for {text}", memory.found(text), equals="")
    for request in requests:
        memory.admit(request)
    memory.run()
    see("what a and b read when they are back", [memory.read(request) for request in requests],
        equals=["abcde", "VWXYZ"])  # fmt: skip


@concept(
    "Main memory has what was copied there, and not what its request found elsewhere later.",
    invariant="I6",
)
def test_a_hit_beyond_the_pool_and_a_failed_step(lab):
    memory = Memory(lab, caching=True)
    a = memory.begin("a", "abcdefgh", 3)
    memory.preempt(a)
    memory.run()
    memory.end(memory.begin("b", "abcdefgh"))  # the same prompt, computed further
    memory.admit(a)
    memory.fail()
    memory.end(memory.begin("b", "0" * 17))  # into every block of the device, and gone
    see = check(memory.draw)
    _, found = memory.kv.get_computed_blocks(a)
    see.between("tokens that a need not compute: 3 went to the pool, though 6 were found", found, most=3)
    memory.admit(a, 8 - found)
    memory.run()
    see("what a reads when it is back", memory.read(a), equals="abcdefgh")


# --- who has ended ------------------------------------------------------------------------------------------------


@concept("A request that has ended holds no block, neither on the device nor in main memory.", invariant="I7")
@cases(
    while_it_runs="runs",
    before_it_goes_out="goes",
    while_it_is_in_the_pool="waits",
    while_it_comes_back="comes",
    while_it_comes_back_and_the_step_fails="fails",
    after_it_is_back="back",
)
def test_who_has_ended_holds_nothing(lab, case):
    memory = Memory(lab)
    a, b = memory.begin("a", "abcdef"), memory.begin("b", "VWXYZ")
    see = check(memory.draw)
    memory.preempt(b)
    if case != "runs":
        memory.preempt(a)
    if case in ("waits", "comes", "fails", "back"):
        memory.run()
    if case in ("comes", "fails", "back"):
        memory.admit(a)
    if case in ("comes", "fails"):
        memory.copy()
    if case == "back":
        memory.run()
    memory.end(a)
    if case in ("fails", "comes"):
        memory.kv.end_step(None if case == "fails" else lab.KVResult())
    else:
        memory.run()
    see("blocks that a holds on the device", memory.kv.get_block_ids("a"), equals=[])
    see("free blocks on the device, of 8", memory.kv.num_free_blocks, equals=8)
    see("CPU blocks held when a has ended, b waits with 2", memory.in_pool(), equals=2)


@concept(
    "A CPU block is the target of one copy: the copy of a request that has ended is no longer made.", invariant="I7"
)
def test_a_place_in_the_pool_that_is_free_again(lab):
    memory = Memory(lab, cpu_blocks=2)
    a, b = memory.begin("a", "abcde"), memory.begin("b", "VWXYZ")
    see = check(memory.draw)
    memory.preempt(a)
    memory.end(a)
    memory.preempt(b)
    out, _ = memory.run()
    see("blocks that go out: only b has two to keep", len(out), equals=2)
    see("CPU blocks held", memory.in_pool(), equals=2)
    memory.admit(b)
    memory.run()
    see("what b reads when it is back", memory.read(b), equals="VWXYZ")


@concept("An id is free when its request has ended: the next one of that name is saved like any other.", invariant="I7")
def test_an_id_that_is_used_again(lab):
    memory = Memory(lab)
    for text in ("abcde", "VWXYZ"):
        a = memory.begin("a", text)
        see = check(memory.draw)
        memory.preempt(a)
        out, _ = memory.run()
        see(f"blocks that go out for the a that knows {text}", len(out), equals=2)
        memory.admit(a)
        memory.run()
        see("what a reads when it is back", memory.read(a), equals=text)
        memory.end(a)


@concept("Whether there is room, and which way is cheaper, is asked again each time.", invariant="I2", illustrates=True)
@cases(
    room=({"cpu_blocks": 3}, "VWXYZ", 6, 3),
    price=({"preemption_mode": "cheaper"}, "", 6, 3),
)
def test_each_time_anew(lab, case):
    options, other, count, expected = case
    memory = Memory(lab, preemption_cost={**NOTHING, "seconds_per_token": 1, "seconds_per_copy": 2}, **options)
    if other:
        b = memory.begin("b", other)
        memory.preempt(b)
        memory.run()
    a = memory.begin("a", "abcdefgh", count if other else 4)
    see = check(memory.draw)
    memory.preempt(a)
    out, _ = memory.run()
    see("blocks that go out when a gives way for the first time", len(out), equals=0)
    if other:
        memory.end(b)
    memory.admit(a, count)
    memory.run()
    memory.preempt(a)
    out, _ = memory.run()
    why = "b has left main memory" if other else "6 tokens are computed, 4 were: from 5 on swapping is cheaper"
    see(f"blocks that go out when a gives way again: {why}", len(out), equals=expected)


@concept(
    "A load is a request's, not a name's: one that ends during its load leaves nothing to the next of its name.",
    invariant="I7",
    illustrates=True,
)
@cases(the_step_goes_well=False, the_step_fails=True)
def test_a_load_of_one_that_has_ended(lab, case):
    memory = Memory(lab)
    a = memory.begin("a", "abcdef")
    memory.preempt(a)
    memory.run()
    memory.admit(a)
    memory.copy()
    memory.end(a)
    memory.planned = []
    memory.kv.end_step(None if case else lab.KVResult())
    again = memory.make("a", "VWXYZ")
    memory.requests = [again]
    see = check(memory.draw)
    _, found = memory.kv.get_computed_blocks(again)
    see("tokens that the next a need not compute", found, equals=0)
    memory.admit(again, 4)
    see("num_external_tokens of the next a", memory.kv.num_external_tokens(again), equals=0)
    see("copies of its step, (out, in)", [*map(len, memory.run())], equals=[0, 0])
    see("what it reads", memory.read(again), equals="VWXY")


@concept(
    "Two managers know nothing of each other, though their requests have the same names.",
    invariant="I5",
    illustrates=True,
)
def test_two_managers(lab):
    memories = [Memory(lab), Memory(lab)]
    requests = [memory.begin("a", "abcde") for memory in memories]
    see = check(lambda: "\n".join(memory.draw() for memory in memories))
    for memory, request in zip(memories, requests):
        memory.preempt(request)
        copies = [tuple(map(len, each.run())) for each in memories[::-1]]
        see("copies of the other one and of the one whose a gives way, (out, in)",
            copies if memory is memories[0] else copies[::-1], equals=[(0, 0), (2, 0)])  # fmt: skip
    for memory, request in zip(memories, requests):
        memory.admit(request)
        copies = [tuple(map(len, each.run())) for each in memories[::-1]]
        see("copies of the other one and of the one whose a comes back, (out, in)",
            copies if memory is memories[0] else copies[::-1], equals=[(0, 0), (0, 2)])  # fmt: skip
        see("what a reads", memory.read(request), equals="abcde")


@concept("The lists that a method is given are read, and are the caller's.", invariant="I4")
def test_lists_are_the_callers(lab):
    memory = Memory(lab)
    a, connector = memory.begin("a", "abcde"), memory.kv.connector
    blocks = memory.kv.get_block_ids("a")
    given = list(blocks)
    see = check(memory.draw)
    connector.save(a, given)
    see("the list that save() was given, after the call", given, equals=blocks)
    memory.run()
    given = [7, 8]
    connector.load(a, given, 0)
    see("the list that load() was given, after the call", given, equals=[7, 8])


# --- all together -------------------------------------------------------------------------------------------------


class Run(Memory):
    """Four requests with prompts of 3 that say 8 tokens each, under the scheduler, in blocks for two of them.

    counted: how often each (request, position) was computed; `shared` letters of the prompts are equal.
    """

    def __init__(self, lab, *, size=2, blocks=8, cpu_blocks=40, budget=8, caching=False, policy="fcfs", shared=0):
        super().__init__(lab, blocks, cpu_blocks, size, caching)
        limits = {"max_num_seqs": 8, "max_num_batched_tokens": budget, "policy": policy}
        self.scheduler = lab.Scheduler(self.kv, **limits)
        self.counted, self.num_copied_out, self.steps = {}, 0, 0
        self.texts = {}
        for number, (name, first) in enumerate(zip("abcd", "aA0\u0391")):
            own = [chr(ord(first) + position) for position in range(11)]
            self.texts[name] = "".join(["!"] * shared + own[shared:])
            prompt = [ord(letter) for letter in self.texts[name][:3]]
            params = lab.SamplingParams(max_tokens=8, ignore_eos=True)
            request = lab.Request(name, prompt, params, priority=-number, arrival_time=float(number))
            self.requests.append(request)
            self.scheduler.add_request(request)

    def until_the_end(self, see, fails=None, copied=False):
        """Step after step; the one of number `fails` raises, after its copies or before."""
        while self.scheduler.has_unfinished_requests() and self.steps < 80:
            self.step(see, self.steps == fails, copied)
            self.steps += 1
        names = "abcd"
        said = ["".join(map(chr, request.output_token_ids)) for request in self.requests]
        see("what a, b, c and d say", said, equals=[self.texts[name][3:] for name in names])
        see("CPU blocks held at the end", self.in_pool(), equals=0)
        see("free blocks on the device at the end", self.kv.num_free_blocks, equals=self.blocks)

    def step(self, see, fails, copied):
        output = self.scheduler.schedule()
        if not fails or copied:
            self.num_copied_out += len(self.copy()[0])
        if fails:
            self.scheduler.fail_step(output)
            self.kv.end_step(None)
            return
        counts = output.num_scheduled_tokens
        self.planned = [(request, counts[request.request_id]) for request in output.scheduled_requests]
        self.write()
        sampled = {}
        for request, count in self.planned:
            name, end = request.request_id, request.num_computed_tokens + count
            read = self.letters(self.kv.get_block_ids(name), end)
            see(f"what {name} reads in step {self.steps}", read, equals=self.texts[name][:end])
            for position in range(request.num_computed_tokens, end):
                self.counted[name, position] = self.counted.get((name, position), 0) + 1
            if self.scheduler.needs_sample(request, count):
                sampled[name] = [ord(self.texts[name][request.num_tokens])]
        self.kv.end_step(self.lab.KVResult())
        self.scheduler.update_from_output(output, sampled)


@concept(
    "A whole run: each request says what it would say alone; with a large pool each token is computed once.",
    invariant="I3",
    illustrates=True,
)
@cases(
    plain={},
    with_prefix_caching={"caching": True},
    a_shared_beginning={"caching": True, "shared": 2},
    blocks_of_1={"size": 1, "blocks": 16},
    blocks_of_3={"size": 3, "blocks": 6, "caching": True},
    in_chunks={"budget": 3},
    by_priority={"policy": "priority", "caching": True},
)
def test_each_token_is_computed_once(lab, case):
    run = Run(lab, **case)
    see = check(run.draw)
    run.until_the_end(see)
    see.between("blocks that were copied out: they are too few for all", run.num_copied_out, least=4)
    twice = sorted(key for key, times in run.counted.items() if times > 1)
    see("tokens that were computed twice, (request, position)", twice, equals=[])


@concept(
    "A small pool costs time, not a token: a request that does not fit computes again.",
    invariant="I2",
    illustrates=True,
)
@cases(no_pool=0, two_blocks=2, four_blocks=4)
def test_a_small_pool(lab, case):
    run = Run(lab, cpu_blocks=case)
    see = check(run.draw)
    run.until_the_end(see)
    see.between("times that a token was computed, at most", max(run.counted.values()), least=2)


@concept(
    "Whichever step fails, the others make up for it: no request reads what was never written.",
    invariant="I6",
    illustrates=True,
)
@cases(
    before_its_copies=({}, False),
    after_its_copies=({"caching": True, "shared": 2}, True),
    a_small_pool=({"caching": True, "cpu_blocks": 4}, False),
)
def test_whichever_step_fails(lab, case):
    options, copied = case
    whole = Run(lab, **options)
    see = check(whole.draw)
    whole.until_the_end(see)
    for fails in range(whole.steps):
        run = Run(lab, **options)
        run.until_the_end(check(run.draw), fails, copied)


# --- any figures, any steps ---------------------------------------------------------------------------------------


def plan_figures(rng, size):
    """Figures of a machine in powers of two, so that all sums are exact; and numbers of tokens, small ones first."""
    most = 2 ** rng.randint(0, min(size, 11))
    figures = {
        "seconds_per_token": rng.choice((0, 1, 3, 4)) * 2.0 ** -rng.randint(0, 20),
        "seconds_per_pair": rng.choice((0, 0, 1, 3)) * 2.0 ** -rng.randint(0, 30),
        "bytes_per_token": rng.choice((0, 1, 6, 2**17)),
        "bandwidth": 2.0 ** rng.randint(0, 36),
        "seconds_per_copy": rng.choice((0, 1, 5)) * 2.0 ** -rng.randint(0, 20),
    }
    return figures, sorted({0, 1, most - 1, most, *(rng.randint(0, most) for _ in range(4))})


def judge_figures(lab, case):
    figures, numbers = case
    with lab.reference() as reference:
        theirs = reference.PreemptionCost(**figures)
        close = theirs.crossover
        numbers = numbers if close > 2000 else sorted({*numbers, *(max(0, int(close) + i) for i in (-1, 0, 1, 2))})
        expected = [(theirs.recompute(n), theirs.swap(n), theirs.swap_is_cheaper(n)) for n in numbers]
    cost = lab.PreemptionCost(**figures)
    see = check(lambda: "\n".join(f"{name} {value}" for name, value in figures.items()))
    for n, (recompute, swap, is_cheaper) in zip(numbers, expected):
        mine = cost.recompute(n)
        if abs(mine - recompute) > 1e-9 * recompute:
            see(f"seconds to compute {n} tokens again", mine, equals=recompute)
        mine = cost.swap(n)
        if abs(mine - swap) > 1e-9 * swap:
            see(f"seconds to swap {n} tokens out and back", mine, equals=swap)
        what = f"whether swapping {n} tokens is cheaper: {swap} against {recompute} seconds"
        see(what, cost.swap_is_cheaper(n), equals=is_cheaper)


@concept(
    "Which way is cheaper depends on the figures and the number of tokens alone, to the last digit.",
    invariant="I1",
    searches=True,
)
def test_any_figures(lab):
    search(lab, plan_figures, judge_figures, 100)


class Walk(Memory):
    """The calls of a walk, and what may be seen. Requests wait, run, give way and end; a call without sense is none.

    What the prefix cache finds may differ from one right way to the next: what is said of it is true of each.
    """

    def __init__(self, lab, **options):
        super().__init__(lab, **options)
        self.alive, self.was, self.num_said = {}, {}, 0
        self.behind = {}  # by their ids: tokens to load of those that are admitted in the step
        self.kept, self.may_leave = set(), set()  # by their ids: who is in main memory, and who need not be any more
        self.params = lab.SamplingParams(max_tokens=64)
        self.is_exact = not self.kv.enable_prefix_caching

    def make(self, name, text):
        return self.lab.Request(name, [ord(letter) for letter in text], self.params)

    def runs(self, name):
        return name in self.alive and self.kv.get_block_ids(name)

    def do_add(self, name, text):
        if name not in self.alive:
            self.alive[name] = self.make(name, text)
            self.requests.append(self.alive[name])
        yield from ()

    def do_end(self, name, how):
        if name in self.alive:
            before = self.draw()
            self.leave(name, how)
            yield from self.look("I7", before)

    def leave(self, name, how):
        request = self.alive.pop(name)
        self.requests.remove(request)
        self.kept.discard(name)
        self.may_leave.discard(name)
        request.status = type(request.status)(how)
        self.kv.free(request)

    def do_flush(self):
        """A request takes every free block, and goes: from then on only held blocks are found."""
        num_tokens = self.kv.num_free_blocks * self.size
        if num_tokens:
            self.num_said += 1
            filler = self.make("filler", chr(0x4000 + self.num_said) * (num_tokens + 1))
            self.kv.allocate_slots(filler, num_tokens)
            self.kv.begin_step()
            self.kv.end_step(self.lab.KVResult())
            filler.num_computed_tokens = num_tokens
            filler.status = type(filler.status)("length")
            self.kv.free(filler)
        yield from ()

    def preempt(self, request):
        if not self.pool.get_block_ids(request.request_id):  # else it is there since an earlier step
            self.was[request.request_id] = request.num_computed_tokens
        super().preempt(request)

    def do_step(self, options=()):
        """Preempted (out), running (on) and admitted requests (back); those that end meanwhile; whether it fails."""
        options, before = dict(options), self.draw()
        fails, count = options.get("fails", ""), options.get("count", 1)
        held, gone = self.in_pool(), [name for name in options.get("out", "") if self.runs(name)]
        for name in gone:
            self.preempt(self.alive[name])
        num_out = self.in_pool() - held
        if self.is_exact:
            yield "I2", "CPU blocks for those that give way", num_out, before, before
        for name in options.get("on", ""):
            if self.runs(name):
                request = self.alive[name]
                n = min(count, request.num_tokens - request.num_computed_tokens)
                if self.kv.allocate_slots(request, n) is not None:
                    self.planned.append((request, n))
        num_in, self.behind = 0, {}
        for name in options.get("back", ""):
            if name in self.alive and not self.runs(name) and (self.is_exact or name not in gone):
                num_in += yield from self.come_back(self.alive[name], count, before)
        for name, behind in self.behind.items():
            external = self.kv.num_external_tokens(self.alive[name])
            what = f"num_external_tokens({name}) less the tokens to load, when all are admitted"
            yield "I3", what, external - behind, before, before
        if fails != "before its copies":
            out, into = self.copy()
            yield "I2", "copies out less the CPU blocks for those that give way", len(out) - num_out, before, before
            yield "I3", "copies in less those that are needed", len(into) - num_in, before, before
        if not fails:
            self.kept = (self.kept | set(gone)) - {request.request_id for request, _ in self.planned}
            self.may_leave -= set(gone)
        if options.get("ends") in self.alive:
            self.leave(options["ends"], options.get("how", "abort"))
        self.finish(fails)
        yield from self.look("I6" if fails else "I7" if "ends" in options else "I5", before)

    def come_back(self, request, count, before):
        """A request is admitted if it can be; returns how many of its blocks are to be copied in."""
        name = request.request_id
        saved = self.was.get(name, 0) if self.pool.get_block_ids(name) else 0
        hits, found = self.kv.get_computed_blocks(request)
        hit = len(hits) * self.size
        what = f"tokens of {name} that need no computing, less the larger of {saved} saved and {hit} cached ones"
        yield "I3", what, found - max(saved, hit), before, before
        n = min(count, request.num_tokens - found)
        given = self.kv.allocate_slots(request, n, hits)
        if self.is_exact:
            what = f"whether {name} gets slots for {n} tokens and the {found} that need no computing"
            yield "I4", what, given is not None, before, before
        if given is None:
            return 0
        self.behind[name] = max(saved - hit, 0)
        request.num_computed_tokens = found
        if not request.num_preemptions:
            request.num_cached_tokens = found
        self.planned.append((request, n))
        needed = max(-(-saved // self.size) - len(hits), 0)
        if not needed:
            self.may_leave.add(name)
        return needed

    def finish(self, fails):
        if fails:
            self.fail(copied=False)
            return
        self.write()
        self.kv.end_step(self.lab.KVResult())
        for request, count in self.planned:
            request.num_computed_tokens += count
            if request.num_computed_tokens == request.num_tokens:
                self.num_said += 1
                request.append_output_token(ord("A") + self.num_said % 26)
        self.planned = []

    def look(self, law, before):
        """Requests that read or find what is not their own, and the blocks that each holds."""
        texts = {name: self.text(request)[: request.num_computed_tokens] for name, request in self.alive.items()}
        reads = {name: self.read(self.alive[name]) for name in texts}
        wrong = {name: reads[name] for name in texts if self.runs(name) and reads[name] != texts[name]}
        yield "I4", "what those read that do not read their own tokens", wrong, before, before
        held = {name: len(self.pool.get_block_ids(name)) for name in self.alive if self.pool.get_block_ids(name)}
        running = {name: number for name, number in held.items() if self.runs(name)}
        yield "I5", "CPU blocks of those that run", running, before, before
        yield (
            law,
            "CPU blocks that are held, less those of requests that live",
            self.in_pool() - sum(held.values()),
            before,
            before,
        )
        if self.is_exact:
            yield law, "CPU blocks of each", held, before, before
            yield law, "how many blocks are free", self.kv.num_free_blocks, before, before
            return
        some = [self.text(request) for request in self.alive.values()]
        finds = {text: self.found(text) for text in some}
        wrong = {text: found for text, found in finds.items() if not text.startswith(found)}
        yield "I6", "what is found for a text that is not the text", wrong, before, before
        wrong = sorted((held.keys() ^ self.kept) - self.may_leave)
        law = "I2" if law == "I5" else law
        yield law, "who is in main memory and should not be, or the other way round", wrong, before, before


def plan_any(rng):
    """Few blocks, and a main memory that may be too small or too dear; or a prefix cache, and room for all."""
    caching = rng.random() < 0.5
    size = rng.choice((1, 2, 3, 4))
    limits = {"size": size, "blocks": 40, "cpu_blocks": 60, "caching": True}
    if not caching:
        blocks = -(-10 // size) + rng.choice((0, 1, 3))
        limits |= {"blocks": blocks, "cpu_blocks": rng.choice((0, 3, 3, blocks, 40)), "caching": False}
        if rng.random() < 0.5:
            cost = {**NOTHING, "seconds_per_token": 1, "seconds_per_copy": rng.choice((1.25, 2.25))}
            limits |= {"preemption_mode": "cheaper", "preemption_cost": cost}
    calls = [("OffloadingKVCacheManager", limits)]
    names = rng.choice(("dbca", "dbca", "gfdbeca"))
    for number in range(rng.randint(8, 18)):
        kind = rng.random()
        if kind < 0.2 or number < 3:
            length = rng.choice((0, 2, 4, 6))
            text = "abcdefgh"[:length] + "".join(rng.choices("XY", k=rng.randint(1, 4)))
            calls.append(("add", rng.choice(names), text))
        elif kind < 0.26:
            calls.append(("end", rng.choice(names), rng.choice(("stop", "length", "abort", "error"))))
        elif kind < 0.32:
            calls.append(("flush",))
        else:
            some = rng.sample(names, len(names))
            num_out, num_back = rng.choice((0, 0, 1, 2, len(names))), rng.choice((0, 1, 2, 4, len(names)))
            options = {"out": "".join(some[:num_out]), "on": "".join(some[num_out:]), "count": rng.choice((1, 2, 4, 9))}
            options["back"] = "".join(rng.sample(names, num_back))
            if rng.random() < 0.15:
                options["fails"] = "before its copies" if rng.random() < 0.5 else "after its copies"
            if rng.random() < 0.15:
                options |= {"ends": rng.choice(names), "how": rng.choice(("stop", "length", "abort", "error"))}
            calls.append(("step", options))
    return calls


def play_any(lab, calls):
    for name, *arguments in calls:
        if name == "OffloadingKVCacheManager":
            memory = Walk(lab, **arguments[0])
        else:
            yield from getattr(memory, f"do_{name}")(*arguments)


@concept(
    "After any steps, failed ones too, each request reads its own tokens, and main memory has the waiting ones only.",
    invariant="I4",
    searches=True,
)
def test_any_calls(lab):
    walk(lab, plan_any, play_any, 60)
