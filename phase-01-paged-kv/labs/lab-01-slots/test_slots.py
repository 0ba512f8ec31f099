"""Lab 01.1: where each token of a packed batch lies in the cache."""

import numpy as np

from labkit import cases, check, concept, far, search


def slots_of(lab, tables, requests, positions, block_size):
    """The learner's slots, as a list."""
    arrays = np.array(tables, np.int32), np.array(requests, np.int64), np.array(positions, np.int64)
    return np.asarray(lab.to_slots(*arrays, block_size)).tolist()


def draw(tables, requests, positions, block_size):
    """Tables and tokens as text."""
    rows = [f"request {i} owns blocks {shown(row)}" for i, row in enumerate(tables[:5])]
    tokens = shown([f"{r}:{p}" for r, p in zip(requests, positions)])
    return "\n".join([f"blocks of {block_size}; tokens (request:position) {tokens}", *rows])


def shown(row):
    """The first entries of a long row."""
    return " ".join(map(str, row[:16])) + (f" ... ({len(row)})" if len(row) > 16 else "")


def expect(lab, what, tables, requests, positions, block_size, slots):
    """One call, one expectation."""
    see = check(draw, tables, requests, positions, block_size)
    see(what, slots_of(lab, tables, requests, positions, block_size), equals=slots)


@concept(
    "The slots of block b are block_size numbers in a row, from b * block_size on.", invariant="I1", illustrates=True
)
@cases(block_5=(5, [20, 21, 22, 23]), block_1=(1, [4, 5, 6, 7]))
def test_one_block(lab, case):
    block, slots = case
    expect(lab, f"slots of a request that owns block {block}", [[block]], [0] * 4, [0, 1, 2, 3], 4, slots)


@concept("Block 0 is a block like any other: its first slot is 0.", invariant="I1")
@cases(of_4=(4, [0]), of_100=(100, [0, 1, 2, 99]))
def test_block_zero(lab, case):
    block_size, slots = case
    expect(lab, "slots of a request that owns block 0", [[0]], [0] * len(slots), slots, block_size, slots)


@concept(
    "A block is full after block_size tokens, whatever that number is; the next token opens the next block.",
    invariant="I1",
)
@cases(
    of_1=(1, [4, 5, 6]),
    of_3=(3, [12, 13, 14, 15, 16, 17, 18]),
    of_4=(4, [16, 17, 18, 19, 20, 21, 22, 23, 24]),
    of_6=(6, list(range(24, 37))),
    of_16=(16, list(range(64, 97))),
    of_49=(49, [196, 244, 245, 293, 294]),
    of_300=(300, [1200, 1455, 1456, 1499, 1500, 1800]),
    of_20_million=(20_000_000, [80_000_000, 99_999_999, 100_000_000, 119_999_999, 120_000_000]),
)
def test_blocks_of_every_size(lab, case):
    """Prompts of up to 2B + 1 tokens, in blocks 4, 5 and 6."""
    block_size, slots = case
    positions = [slot - 4 * block_size for slot in slots]
    what = f"slots of {len(slots)} tokens in blocks 4, 5, 6"
    expect(lab, what, [[4, 5, 6]], [0] * len(slots), positions, block_size, slots)


@concept(
    "A position may be any number up to 2**31 - 1, so one more, or a block more, is no int32.",
    invariant="I1",
    illustrates=True,
)
@cases(blocks_of_2_to_the_30=2**30, one_block=2**31, no_power_of_two=2**31 - 1)
def test_the_last_positions(lab, case):
    """The last position, the one before it, and both sides of the first edge."""
    positions = sorted({2**31 - 1, 2**31 - 2, min(case, 2**31 - 1), case - 1})
    what = f"slots of positions {', '.join(map(str, positions))}, in blocks 1, 2"
    expect(lab, what, [[1, 2]], [0] * len(positions), positions, case, [case + p for p in positions])


@concept("The table alone says where a block lies: the next block need not be the neighbour.", invariant="I1")
def test_blocks_lie_anywhere(lab):
    positions = list(range(9))
    slots = [28, 29, 30, 31, 8, 9, 10, 11, 20]
    expect(lab, "slots of 9 tokens in blocks 7, 2, 5", [[7, 2, 5]], [0] * 9, positions, 4, slots)


@concept(
    "A chunk goes on where the last one ended: the position counts in the sequence, not in the batch.", invariant="I1"
)
@cases(
    decode_at_an_edge=([4], [20]),
    decode_before_an_edge=([7], [23]),
    chunk_over_an_edge=([2, 3, 4, 5], [18, 19, 20, 21]),
)
def test_a_chunk_starts_in_the_middle(lab, case):
    positions, slots = case
    expect(lab, f"slots of positions {positions}", [[4, 5, 6]], [0] * len(positions), positions, 4, slots)


@concept("Each token looks in the table of its own request.", invariant="I2", illustrates=True)
def test_two_requests(lab):
    what = "slots of two requests, one behind the other"
    expect(lab, what, [[5], [2]], [0, 0, 0, 1, 1], [0, 1, 2, 0, 1], 4, [20, 21, 22, 8, 9])


@concept("All tokens may be those of one request, which need not be the first.", invariant="I2", illustrates=True)
@cases(second=(1, [20, 21]), third=(2, [36, 37]))
def test_one_request_of_several(lab, case):
    number, slots = case
    expect(lab, f"slots of request {number} alone", [[7, 2], [5, 0], [9, 1]], [number] * 2, [0, 1], 4, slots)


@concept("Tokens may come in any order: requests[t] is the only thing that says whose token t is.", invariant="I2")
def test_tokens_of_two_requests_alternate(lab):
    what = "slots of two requests that take turns"
    expect(lab, what, [[5], [2]], [1, 0, 1, 0], [0, 0, 1, 1], 4, [8, 20, 9, 21])


@concept("Tokens of one request may come in any order, too: each has the slot of its own position.", invariant="I1")
def test_positions_in_any_order(lab):
    expect(lab, "slots of positions 0, 2, 1, 3", [[5]], [0] * 4, [0, 2, 1, 3], 4, [20, 22, 21, 23])


MANY_COLUMNS = far(1_200_000, 5_000_000)


@concept("Rows, columns and tokens are as many as the arrays hold.", invariant="I1")
@cases(
    requests=(300, 1, 2, range(300), [0] * 300, range(2, 602, 2)),
    columns=(1, MANY_COLUMNS, 1, [0, 0], [0, MANY_COLUMNS - 1], [1, MANY_COLUMNS]),
    tokens=(1, 2, 40_000, [0] * 70_000, range(70_000), range(40_000, 110_000)),
)
def test_many(lab, case):
    """Block ids count up from 1, row by row."""
    num_requests, num_columns, block_size, requests, positions, expected = case
    table = np.arange(1, 1 + num_requests * num_columns, dtype=np.int32).reshape(num_requests, num_columns)
    sizes = f"{num_requests:,} requests of {num_columns:,} columns, blocks of {block_size:,}, {len(requests):,} tokens"
    see = check(lambda: sizes)
    slots = lab.to_slots(table, np.array(requests, np.int64), np.array(positions, np.int64), block_size)
    see("number of slots", len(slots), equals=len(expected))
    t = next((t for t, slot in enumerate(slots.tolist()) if slot != expected[t]), 0)
    see(f"slot of position {positions[t]:,} of request {requests[t]:,}, token {t:,}", int(slots[t]), expected[t])


@concept("A batch may have tens of thousands of requests: a row has any number.", invariant="I1", illustrates=True)
def test_the_last_of_many_rows(lab):
    """Block ids count up from 1; each request has one."""
    last = far(70_000, 300_000) - 1
    see = check(lambda: f"{last + 1:,} requests, each with one block of 2")
    table = np.arange(1, last + 2, dtype=np.int32)[:, None]
    slots = lab.to_slots(table, np.array([0, last], np.int64), np.zeros(2, np.int64), 2)
    see(f"slots of position 0 of requests 0 and {last:,}", slots.tolist(), equals=[2, 2 * last + 2])


@concept(
    "A request without a token in this step keeps its row, so the rows after it keep their numbers.", invariant="I2"
)
def test_a_request_without_tokens(lab):
    what = "slots of requests 0 and 2 when request 1 has no tokens"
    expect(lab, what, [[5], [2], [9]], [0, 0, 2], [0, 1, 0], 4, [20, 21, 36])


@concept("The table is as wide as its longest request; columns behind a request's blocks mean nothing.", invariant="I2")
def test_columns_past_the_last_block(lab):
    tables = [[5, -1, 99], [2, 3, -1]]
    what = "slots of short requests in a wide table"
    expect(lab, what, tables, [0, 1, 1, 1, 1, 1], [0, 0, 1, 2, 3, 4], 4, [20, 8, 9, 10, 11, 12])


@concept("Requests with a common prefix share a block, so their tokens there share their slots.", invariant="I1")
def test_a_shared_block(lab):
    what = "slots of two requests that share block 6"
    expect(lab, what, [[6], [6]], [0, 0, 1, 1], [0, 1, 0, 1], 2, [12, 13, 12, 13])


@concept("A large cache has more slots than an int32 can count, so slots are int64.", invariant="I3")
@cases(
    above_int32=(200_000_000, 16, 3_200_000_000),
    above_uint32=(2_000_000_001, 16, 32_000_000_016),
    of_3=(2_000_000_001, 3, 6_000_000_003),
    of_1000=(2**31 - 1, 1000, 2_147_483_647_000),
    above_float64=(2**31 - 1, 2**31 - 1, (2**31 - 1) ** 2),
)
def test_a_large_cache(lab, case):
    """float32 would round 3,200,000,007 to a multiple of 256, and float64 those near 2**62 to multiples of 512."""
    block, block_size, slot = case
    num_tokens = min(block_size, 8)
    what = f"slots of a request that owns block {block:,}, of {block_size} slots"
    slots = list(range(slot, slot + num_tokens))
    expect(lab, what, [[block]], [0] * num_tokens, list(range(num_tokens)), block_size, slots)


@concept("Slots are an int64 array, be they many, few or none.", invariant="I3")
@cases(three=([[5]], [0, 0, 0], [0, 1, 2]), none=([[5]], [], []))
def test_slots_are_int64(lab, case):
    tables, requests, positions = case
    arrays = np.array(tables, np.int32), np.array(requests, np.int64), np.array(positions, np.int64)
    see = check(draw, arrays[0].tolist(), requests, positions, 4)
    slots = lab.to_slots(*arrays, 4)
    see("type of the slots", type(slots).__name__, equals="ndarray")
    see("dtype of the slots", str(slots.dtype), equals="int64")
    see("shape of the slots", tuple(slots.shape), equals=(len(positions),))


@concept("The arrays may be parts of larger ones: rows of a wider table, every second token.", invariant="I2")
def test_parts_of_larger_arrays(lab):
    """The table has two columns of a persistent one of four; between the tokens stand those of somebody else."""
    wide = np.array([[4, 5, 90, 91], [7, 2, 92, 93]], np.int32)
    requests, positions = np.full(12, 9), np.full(12, 99)
    requests[::2], positions[::2] = [0, 0, 0, 0, 0, 1], [0, 1, 2, 3, 4, 0]
    see = check(draw, wide[:, :2].tolist(), requests[::2], positions[::2], 4)
    slots = lab.to_slots(wide[:, :2], requests[::2], positions[::2], 4)
    see("slots of six tokens of two requests", slots.tolist(), equals=[16, 17, 18, 19, 20, 28])
    turned = np.array([[4, 7], [5, 2]], np.int32).T  # its columns lie side by side in memory, and not its rows
    slots = lab.to_slots(turned, requests[::2], positions[::2], 4)
    see("the same, with a table that is a transposed array", slots.tolist(), equals=[16, 17, 18, 19, 20, 28])


@concept("The caller goes on using what it passed: nothing is changed in place.", invariant="I3")
@cases(
    of_4=([[9, 99, 99], [4, 5, 99]], [1, 0, 1, 1], [3, 0, 4, 5], 4),
    slots_like_positions=([[0]], [0, 0], [0, 0], 1),
)
def test_the_arguments_stay(lab, case):
    tables, requests, positions, block_size = case
    arrays = np.array(tables, np.int32), np.array(requests, np.int64), np.array(positions, np.int64)
    see = check(draw, tables, requests, positions, block_size)
    slots = lab.to_slots(*arrays, block_size)
    slots += 100
    see("positions after the call", arrays[2].tolist(), equals=positions)
    see("requests after the call", arrays[1].tolist(), equals=requests)
    see("the table after the call", arrays[0].tolist(), equals=tables)


@concept(
    "Each step stands alone: the caller keeps the last one's slots, and writes the next step into the same arrays.",
    invariant="I3",
)
def test_two_steps(lab):
    table, requests, positions = np.array([[4, 99]], np.int32), np.zeros(5, np.int64), np.arange(5)
    first = lab.to_slots(table, requests[:4], positions[:4], 4)
    see = check(lambda: f"request 0 owns blocks {shown(table[0])}; its slots in the first step are {first.tolist()}")
    table[0, 1] = 5
    second = lab.to_slots(table, requests, positions, 4)
    see("slots of 5 tokens, after block 5 was written into the table", second.tolist(), equals=[16, 17, 18, 19, 20])
    table[0, 0] = 8
    third = lab.to_slots(table, requests[:4], positions[:4], 4)
    see("slots of 4 tokens, after block 8 took the place of block 4", third.tolist(), equals=[32, 33, 34, 35])
    see("slots of the first step, which the caller kept", first.tolist(), equals=[16, 17, 18, 19])
    arrays = np.zeros((2, 2), np.int32), np.zeros(4, np.int64), np.zeros(4, np.int64)
    last = "nothing"
    for tables, requests, positions, block_size, expected in (
        ([[4, 5], [6, 7]], [0, 0, 1, 1], [0, 1, 0, 1], 2, [8, 9, 12, 13]),
        ([[4, 5], [8, 9]], [0, 0, 1, 1], [0, 1, 0, 1], 2, [8, 9, 16, 17]),
        ([[4, 5], [8, 9]], [0, 0, 0, 1], [0, 1, 2, 0], 2, [8, 9, 10, 16]),
        ([[4, 5], [8, 9]], [0, 0, 1, 1], [0, 1, 0, 1], 1, [4, 5, 8, 9]),
    ):
        see = check(draw, tables, requests, positions, block_size)
        for array, numbers in zip(arrays, (tables, requests, positions)):
            array[:] = numbers
        see(f"slots of a step in arrays that held {last} before", lab.to_slots(*arrays, block_size).tolist(), expected)
        last = f"blocks {shown(np.ravel(tables))} and positions {shown(positions)}"


def any_batch(rng, size):
    """Tables, requests, positions and block_size: at first one token or two, later thousands of slots."""
    block_size, num_requests = rng.choice((1, 2, 3, 4, 6, 16)), rng.randint(1, 2 + size // 10)
    width = rng.randint(1, 3 + size) if size < 30 else rng.randint(300, 600)
    owned = [rng.randint(1, width) for _ in range(num_requests)]
    ids = range(2**31 // 8) if size % 5 == 4 else range(num_requests * width)
    tables = [[rng.choice(ids) for _ in range(own)] + [rng.choice((-1, 2**31 - 1))] * (width - own) for own in owned]
    requests = [rng.randrange(num_requests) for _ in range(size)]
    positions = [rng.randrange(owned[request] * block_size) for request in requests]
    if size % 3 == 2:  # a chunk of each request, its tokens in order, as a scheduler makes them
        pairs = sorted(zip(requests, positions))
        requests, positions = [list(each) for each in zip(*pairs)]
    return tables, requests, positions, block_size


@concept("Whatever the batch, a slot follows from the token's own request and position.", invariant="I1", searches=True)
def test_any_batch(lab):
    def judge(lab, batch):
        tables, requests, positions, block_size = batch
        arrays = np.array(tables, np.int32), np.array(requests, np.int64), np.array(positions, np.int64)
        see = check(draw, *batch)
        slots = lab.to_slots(*arrays, block_size)
        pairs = zip(requests, positions)
        expected = [tables[r][p // block_size] * block_size + p % block_size for r, p in pairs]
        see("number of slots", len(slots), equals=len(expected))
        wrong = [t for t, slot in enumerate(expected) if slot != slots[t]]
        if wrong:
            t = wrong[0]
            what = f"slot of position {positions[t]} of request {requests[t]}, which is token {t} of the batch"
            column = positions[t] // block_size
            see(f"{what} and lies in block {tables[requests[t]][column]} (column {column})", int(slots[t]), expected[t])
        see("dtype of the slots", str(slots.dtype), equals="int64")
        for name, array, before in zip(("the table", "requests", "positions"), arrays, batch):
            see(f"{name} after the call", array.tolist(), equals=before)

    search(lab, any_batch, judge, 60)
