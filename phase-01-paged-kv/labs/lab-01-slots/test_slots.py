"""Lab 01.1: where each token of a packed batch lies in the cache."""

import numpy as np

from labkit import cases, check, concept


def slots_of(lab, tables, requests, positions, block_size):
    """The learner's slots, as a list."""
    arrays = np.array(tables, np.int32), np.array(requests, np.int64), np.array(positions, np.int64)
    return np.asarray(lab.to_slots(*arrays, block_size)).tolist()


def draw(tables, requests, positions, block_size):
    """Tables and tokens as text."""
    rows = [f"request {i} owns blocks {' '.join(map(str, row))}" for i, row in enumerate(tables)]
    tokens = [f"{r}:{p}" for r, p in zip(requests, positions)]
    shown = " ".join(tokens[:16]) + (" ..." if len(tokens) > 16 else "")
    return "\n".join([f"blocks of {block_size}; tokens (request:position) {shown}", *rows[:5]])


def expect(lab, what, tables, requests, positions, block_size, slots):
    """One call, one expectation."""
    see = check(draw, tables, requests, positions, block_size)
    see(what, slots_of(lab, tables, requests, positions, block_size), equals=slots)


@concept(
    "The slots of block b are block_size numbers in a row, from b * block_size on; block 0 is a block.", invariant="I1"
)
@cases(block_5=(5, [20, 21, 22, 23]), block_1=(1, [4, 5, 6, 7]), block_0=(0, [0, 1, 2, 3]))
def test_one_block(lab, case):
    block, slots = case
    expect(lab, f"slots of a request that owns block {block}", [[block]], [0] * 4, [0, 1, 2, 3], 4, slots)


@concept(
    "A block is full after block_size tokens, whatever that number is; the next token opens the next block.",
    invariant="I1",
)
@cases(
    of_1=(1, [4, 5, 6]),
    of_3=(3, [12, 13, 14, 15, 16, 17, 18]),
    of_4=(4, [16, 17, 18, 19, 20, 21, 22, 23, 24]),
    of_16=(16, list(range(64, 97))),
)
def test_blocks_of_every_size(lab, case):
    """Prompts of 2B + 1 tokens, in blocks 4, 5 and 6."""
    block_size, slots = case
    positions = list(range(len(slots)))
    what = f"slots of {len(slots)} tokens in blocks 4, 5, 6"
    expect(lab, what, [[4, 5, 6]], [0] * len(slots), positions, block_size, slots)


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


@concept("Tokens may come in any order: requests[t] is the only thing that says whose token t is.", invariant="I2")
def test_tokens_of_two_requests_alternate(lab):
    what = "slots of two requests that take turns"
    expect(lab, what, [[5], [2]], [1, 0, 1, 0], [0, 0, 1, 1], 4, [8, 20, 9, 21])


@concept(
    "A request without a token in this step keeps its row, so the rows after it keep their numbers.", invariant="I2"
)
def test_a_request_without_tokens(lab):
    what = "slots of requests 0 and 2 when request 1 has no tokens"
    expect(lab, what, [[5], [2], [9]], [0, 0, 2], [0, 1, 0], 4, [20, 21, 36])


@concept("The table is as wide as its longest request; columns behind a request's blocks mean nothing.", invariant="I2")
def test_columns_past_the_last_block(lab):
    tables = [[5, 99, 99], [2, 3, 99]]
    what = "slots of short requests in a wide table"
    expect(lab, what, tables, [0, 1, 1, 1, 1, 1], [0, 0, 1, 2, 3, 4], 4, [20, 8, 9, 10, 11, 12])


@concept("Requests with a common prefix share a block, so their tokens there share their slots.", invariant="I2")
def test_a_shared_block(lab):
    what = "slots of two requests that share block 6"
    expect(lab, what, [[6], [6]], [0, 0, 1, 1], [0, 1, 0, 1], 2, [12, 13, 12, 13])


@concept("A large cache has more slots than an int32 can count, so slots are int64.", invariant="I3")
def test_a_large_cache(lab):
    what = "the slot of the first token in block 200,000,000 of 16 slots"
    expect(lab, what, [[200_000_000]], [0], [0], 16, [3_200_000_000])


@concept("A step without tokens has no slots, and they are int64 like any others.", invariant="I3")
def test_no_tokens(lab):
    tables, nothing = np.array([[5]], np.int32), np.array([], np.int64)
    slots = lab.to_slots(tables, nothing, nothing, 4)
    see = check()
    see("shape of the slots of no tokens", tuple(slots.shape), equals=(0,))
    see("dtype of the slots of no tokens", str(slots.dtype), equals="int64")


@concept("The caller goes on using what it passed: nothing is changed in place.", invariant="I3")
def test_the_arguments_stay(lab):
    tables, requests, positions = np.array([[4, 5]], np.int32), np.zeros(3, np.int64), np.array([3, 4, 5], np.int64)
    slots = lab.to_slots(tables, requests, positions, 4)
    slots += 100
    see = check()
    see("positions after the call", positions.tolist(), equals=[3, 4, 5])
    see("requests after the call", requests.tolist(), equals=[0, 0, 0])
    see("the table after the call", tables.tolist(), equals=[[4, 5]])
