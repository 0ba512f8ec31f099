"""Lab 06.2: what a window gives back, and what stands in its place."""

from labkit import cases, check, concept, far, processor_seconds, search, walk


def make(lab, *lengths, named=(), total=40):
    """A pool, and a table of so many new blocks for each length; the ids in `named` get a name."""
    pool = lab.BlockPool(total)
    tables = [pool.get_new_blocks(length) for length in lengths]
    for table in tables:
        for block in table:
            if block.block_id in named:
                pool.cache_block(block, ("name", block.block_id))
    return pool, tables


def ids(tables):
    return [[block.block_id for block in table] for table in tables]


def picture(pool, tables):
    """The tables, and the blocks in the order in which they would be taken; 0 is the null block."""
    return "\n".join(
        [*(f"table {g}  {row}" for g, row in enumerate(ids(tables))), f"free     {pool.free_queue.block_ids()}"]
    )


@concept(
    "The window counts the token that looks: of the computed ones it needs one fewer.", invariant="I1", illustrates=True
)
@cases(
    nothing_computed=(4, 6, 0, 0), less_than_a_window=(4, 6, 4, 0), a_window_but_one=(4, 6, 5, 0),
    a_window=(4, 6, 6, 1),
    two_more=(4, 6, 8, 3), far_behind=(16, 1024, 50_000, 48_977), itself_alone=(4, 1, 7, 7), two=(3, 2, 7, 6),
)  # fmt: skip
def test_skipped_tokens(lab, case):
    block_size, window, num_computed, expected = case
    kind = lab.SlidingWindow(block_size, window)
    what = f"num_skipped_tokens({num_computed}) of a window of {window}"
    check()(what, kind.num_skipped_tokens(num_computed), equals=expected)


@concept("From the number of tokens follows the number of skipped blocks, and the other way round.", invariant="I2")
def test_next_skip(lab):
    see = check()
    for block_size, window in ((4, 6), (4, 1), (4, 5), (3, 7), (1, 3), (16, far(1000))):
        kind = lab.SlidingWindow(block_size, window)
        for num_skipped in (0, 1, 2, 5, far(300)):
            full = (num_skipped + 1) * block_size  # tokens that fill one block more
            least = next(n for n in range(full, full + window + 1) if n - (window - 1) >= full)
            what = f"next_skip({num_skipped}), blocks of {block_size}, a window of {window}"
            see(what, kind.next_skip(num_skipped), equals=least)


@concept(
    "Positions never shift: a null block stands for each block that is given back.", invariant="I3", illustrates=True
)
@cases(
    nothing_yet=(8, [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]),
    a_block=(9, [[1, 2, 3, 4, 5], [0, 7, 8, 9, 10]]),
    three_blocks=(18, [[1, 2, 3, 4, 5], [0, 0, 0, 9, 10]]),
    more_than_there_are=(99, [[1, 2, 3, 4, 5], [0, 0, 0, 0, 0]]),
)
def test_places(lab, case):
    num_settled, expected = case
    pool, tables = make(lab, 5, 5)
    see = check(picture, pool, tables)
    lists = list(tables)
    lab.drop_skipped((lab.FullAttention(4), lab.SlidingWindow(4, 6)), tables, num_settled, pool)
    see(f"tables with {num_settled} tokens settled", ids(tables), equals=expected)
    see("tables that are other lists now", [g for g in range(2) if tables[g] is not lists[g]], equals=[])
    num_nulls = sum(row.count(0) for row in expected)
    see("free blocks", pool.num_free_blocks, equals=29 + num_nulls)


@concept("What was given back stays so: the next call frees what is new, and nothing twice.", invariant="I4")
def test_call_after_call(lab):
    pool, (table,) = make(lab, 12)
    kind = lab.SlidingWindow(4, 6)
    see = check(picture, pool, [table])
    for num_settled in (3, 9, 9, 12, 13, 22, 31, 46, 200):
        lab.drop_skipped((kind,), [table], num_settled, pool)
        num_gone = min(12, max(0, num_settled - 5) // 4)
        see(f"the table with {num_settled} tokens", ids([table]), equals=[[0] * num_gone + [*range(1 + num_gone, 13)]])
        see(f"free blocks with {num_settled} tokens", pool.num_free_blocks, equals=27 + num_gone)
        see("how often the null block is held", pool.null_block.ref_cnt, equals=0)


@concept("The tail of what is given back goes first, so a beginning stays in the cache for longer.", invariant="I4")
def test_the_tail_goes_first(lab):
    pool, (table,) = make(lab, 9, named=(1, 2, 4, 5), total=10)
    see = check(picture, pool, [table])
    lab.drop_skipped((lab.SlidingWindow(4, 6),), [table], 33, pool)
    see(
        "free blocks in the order in which they would be taken",
        pool.free_queue.block_ids(),
        equals=[7, 6, 3, 5, 4, 2, 1],
    )


@concept("A long text costs no more than a short one, for each block that it gives back.", invariant="I5")
@cases(one_at_a_time=1, in_threes=3)
def test_cost(lab, case):
    see = check()
    short, long, num_tokens = 300, far(12_000), 200

    def seconds(length):
        """The least time of the last calls of a table, which give back as many blocks whatever its length."""
        times = []
        for _ in range(2):
            pool, (table,) = make(lab, length, total=length + 1)
            kind, end = lab.SlidingWindow(1, 5), length - num_tokens
            lab.drop_skipped((kind,), [table], end, pool)

            def work(kind=kind, table=table, pool=pool, end=end):
                for num_settled in range(end, end + num_tokens, case):
                    lab.drop_skipped((kind,), [table], num_settled, pool)

            times.append(processor_seconds(work))
        return min(times)

    enough = 8 * seconds(short) + 0.004
    is_steady = any(seconds(long) <= enough for _ in range(2))
    what = f"the processor's time of {num_tokens} tokens at the end of {long:,}, beside those at the end of {short}"
    see.true(what, is_steady, "more", "at most 8 times as much")


@concept("Of a hit a table holds what a token will see; the rest of it stays where it is.", invariant="I6")
@cases(
    at_the_end_of_a_block=(8, 6, [0, 0, 0]), behind_three=(12, 6, [0, 2, 3]), all_of_it=(12, 99, [1, 2, 3]),
    nothing_of_it=(12, 1, [0, 0, 0]), the_rest_comes_later=(20, 1, [0, 0, 0, 0, 0]),
)  # fmt: skip
def test_a_hit_is_held(lab, case):
    num_tokens, window, expected = case
    pool, (held, hit) = make(lab, 3, 3)
    hit = [pool.null_block] * 3 if num_tokens == 8 else hit
    groups = (lab.FullAttention(4), lab.SlidingWindow(4, window))
    computed = [list(held), list(hit)]
    see = check(picture, pool, computed)
    tables = lab.begin_tables(groups, computed, num_tokens, pool)
    rows = [[1, 2, 3], [block_id and block_id + 3 for block_id in expected]]
    see("the tables", ids(tables), equals=rows)
    counts = [block.ref_cnt for block in pool.blocks[:7]]
    see("how often blocks 0 to 6 are held", counts, equals=[0, 2, 2, 2, *(1 + (i in rows[1]) for i in (4, 5, 6))])
    see("computed_blocks", ids(computed), equals=ids([held, hit]))
    tables[0].append(pool.null_block)
    see("computed_blocks when a table grows", ids(computed), equals=ids([held, hit]))


@concept("Blocks that only the cache has are taken out of the free queue when a table holds them.", invariant="I6",
         illustrates=True)  # fmt: skip
def test_free_hits(lab):
    pool, (table,) = make(lab, 4, named=(1, 2, 3, 4), total=6)
    pool.free_blocks(table)
    see = check(picture, pool, [table])
    (found,) = lab.begin_tables((lab.SlidingWindow(4, 6),), [table], 16, pool)
    see("the table", ids([found]), equals=[[0, 0, 3, 4]])
    see("free blocks in the order in which they would be taken", pool.free_queue.block_ids(), equals=[5, 2, 1])
    see(
        "tables without a hit",
        lab.begin_tables((lab.SlidingWindow(4, 6), lab.FullAttention(4)), [], 0, pool),
        equals=[[], []],
    )
    groups = (lab.SlidingWindow(4, 6), lab.FullAttention(4))
    see("without a hit, when 16 tokens come later", ids(lab.begin_tables(groups, [], 16, pool)), equals=[[0, 0], []])


def plan(rng):
    sizes = [
        (rng.choice(("full", "window", "chunk")), rng.randint(1, 4), rng.randint(1, 9))
        for _ in range(rng.randint(1, 3))
    ]
    calls = [("groups", sizes, rng.randint(0, 6))]
    return calls + [(rng.choice(("grow", "settle", "settle")), rng.randint(1, 9)) for _ in range(12)]


def play(lab, calls):
    kinds = {"full": lambda size, _: lab.FullAttention(size), "window": lab.SlidingWindow, "chunk": lab.ChunkedLocal}
    pool, groups, tables, num_settled = lab.BlockPool(400), (), [], 0
    for name, *arguments in calls:
        if name == "groups":
            sizes, num_hits = arguments
            groups = tuple(kinds[kind](size, most) for kind, size, most in sizes)
            computed = [pool.get_new_blocks(num_hits) for _ in groups] if num_hits else []
            num_settled = num_hits * groups[0].block_size
            tables = lab.begin_tables(groups, computed, num_settled, pool)
            yield "I6", "begin_tables()", ids(tables)
        elif name == "grow":
            for table in tables:
                table += pool.get_new_blocks(arguments[0])
        else:
            num_settled += arguments[0]
            lab.drop_skipped(groups, tables, num_settled, pool)
        yield "I3", "the tables", ids(tables), picture(pool, tables)
        yield "I4", "free blocks", pool.free_queue.block_ids()[:20], picture(pool, tables)


@concept(
    "Whatever grows and is given back: the tables and the queue of the reference.",
    invariant="I3",
    illustrates=True,
    searches=True,
)
def test_any_calls(lab):
    walk(lab, plan, play)


@concept("Under a scheduler each token finds what it sees, and in the end every block is free.", invariant="I3",
         illustrates=True, searches=True)  # fmt: skip
def test_under_a_scheduler(lab):
    """Each slot notes what was written into it; each token looks for all that it sees."""

    def plan_requests(rng, size):
        return rng.randint(1, 4), rng.randint(2, 9), [(rng.randint(1, 8 + size), rng.randint(1, 9)) for _ in range(3)]

    def judge(lab, case):
        block_size, window, requests = case
        groups = (lab.FullAttention(block_size), lab.SlidingWindow(block_size, window))
        kv = lab.HybridKVCacheManager(200, block_size, groups=groups, max_num_batched_tokens=7)
        scheduler = lab.Scheduler(kv, max_num_seqs=2, max_num_batched_tokens=7)
        for name, (length, max_tokens) in enumerate(requests):
            params = lab.SamplingParams(max_tokens=max_tokens, ignore_eos=True)
            scheduler.add_request(lab.Request(str(name), [5 + i % 3 for i in range(length)], params))
        see, slots = check(lambda: f"blocks of {block_size}, a window of {window}, prompts and answers {requests}"), {}
        while scheduler.has_unfinished_requests():
            output = scheduler.schedule()
            kv.begin_step()
            sampled = {}
            for request in output.scheduled_requests:
                name = request.request_id
                start = request.num_computed_tokens
                end = start + output.num_scheduled_tokens[name]
                for g, table in enumerate(kv.get_block_tables(name)):
                    first = 0 if g == 0 else max(0, start - window + 1)
                    for i in range(start, end):
                        slots[g, table[i // block_size], i % block_size] = tuple(request.all_token_ids[: i + 1])
                    for i in range(first, end):
                        place = table[i // block_size], i % block_size
                        what = f"block {place[0]}, slot {place[1]}, which request {name} sees as token {i} of group {g}"
                        wanted = tuple(request.all_token_ids[: i + 1])
                        see(what, slots.get((g, *place)) if place[0] else "the null block", equals=wanted)
                if end == request.num_tokens:
                    sampled[name] = [6]
            kv.end_step(lab.KVResult())
            scheduler.update_from_output(output, sampled)
        see("free blocks at the end", kv.block_pool.num_free_blocks, equals=kv.num_usable_blocks)

    search(lab, plan_requests, judge, num=30)
