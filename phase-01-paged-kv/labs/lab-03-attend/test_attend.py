"""Lab 01.3: online softmax, and attention of one query over the blocks of its sequence."""

import math

import torch

from labkit import cases, check, concept

CPU = torch.device("cpu")
LN3 = math.log(3.0)
LARGE = 1e4


def shown(tensor):
    """The first numbers of a tensor."""
    numbers = [f"{x:.6g}" for x in tensor.flatten().tolist()]
    return " ".join(numbers[:8]) + (" ..." if len(numbers) > 8 else "")


def expect(see, what, got, expected, bound=1e-5):
    """Within `bound` of the largest result. float32 rounds each of some hundred operations by at most 6e-8 of it, so
    1e-5 is met with room to spare; a wrong weight or a missed key is far outside."""
    expected = torch.as_tensor(expected, dtype=torch.float64)
    see(f"shape of {what}", tuple(got.shape), equals=tuple(expected.shape))
    error = (got.double() - expected).abs().max()
    if not error <= bound * expected.abs().max():
        see.fail(what, shown(expected), shown(got))


def add_all(lab, pieces):
    """An online softmax of one head, fed with pieces of (scores, values), each value one number."""
    softmax = lab.OnlineSoftmax(1, 1, 1, CPU)
    for scores, values in pieces:
        softmax.add(torch.tensor([[scores]]), torch.tensor(values)[:, None, None])
    return softmax


def draw_pieces(pieces):
    return "\n".join(f"piece {i}   scores {piece[0]}   values {piece[1]}" for i, piece in enumerate(pieces))


class Sequence:
    """A sequence in blocks of a cache. Its values are its positions and its keys zeros, or both are random by a seed;
    what belongs to no position is `background`."""

    def __init__(
        self, table, length, block_size, num_kv_heads=1, head_dim=2, background=0.0, seed=None, dtype=torch.float32
    ):
        self.table, self.length, self.block_size = table, length, block_size
        generator = torch.Generator().manual_seed(seed or 0)
        shape = (length, num_kv_heads, head_dim)
        if seed is None:
            self.keys = torch.zeros(shape)
            self.values = torch.arange(length)[:, None, None] + 100.0 * torch.arange(num_kv_heads)[:, None].expand(
                shape
            )
        else:
            self.keys, self.values = torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)
        self.keys, self.values = self.keys.to(dtype), self.values.to(dtype)
        self.generator, self.background, self.dtype = generator, background, dtype

    def caches(self):
        num_blocks = max(block for block in self.table if block < 1000) + 2
        shape = (num_blocks, self.block_size, *self.keys.shape[1:])
        key_cache, value_cache = (torch.full(shape, self.background, dtype=self.dtype) for _ in "kv")
        for position in range(self.length):
            place = self.table[position // self.block_size], position % self.block_size
            if place[0] < num_blocks:
                key_cache[place], value_cache[place] = self.keys[position], self.values[position]
        return key_cache, value_cache

    def attend(self, lab, query, begin, end, scale=None):
        key_cache, value_cache = self.caches()
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        return lab.attend_one(query, key_cache, value_cache, list(self.table), begin, end, scale)

    def dense(self, query, begin, end, scale=None):
        """The definition in float64: a softmax of all scores at once, over keys and values side by side."""
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        group = query.shape[0] // self.keys.shape[1]
        rows = []
        for head, q in enumerate(query.double()):
            keys, values = self.keys[begin:end, head // group].double(), self.values[begin:end, head // group].double()
            scores = scale * (keys @ q)
            rows.append(torch.softmax(scores, 0) @ values)
        return torch.stack(rows)

    def query(self, num_heads):
        return torch.randn(num_heads, self.keys.shape[2], generator=self.generator).to(self.dtype)

    def draw(self, begin, end):
        """Who lies where: the positions of each block, in brackets what the query may not see."""
        lines = [f"blocks of {self.block_size}; the query sees positions {begin} to {end - 1}"]
        for column, block in enumerate(self.table):
            positions = range(column * self.block_size, min((column + 1) * self.block_size, self.length))
            cells = [str(p) if begin <= p < end else f"({p})" for p in positions][:16]
            lines.append(f"column {column}   block {block}   positions {' '.join(cells) or '-'}")
        return "\n".join(lines)


def expect_mean(lab, sequence, begin, end, mean):
    """A query of zeros gives every position the same weight: the result is the mean of the positions that it sees."""
    see = check(sequence.draw, begin, end)
    got = sequence.attend(lab, torch.zeros(1, 2), begin, end)
    expect(see, f"mean of positions {begin} to {end - 1}", got, [[mean, mean]])


@concept("A new maximum scales both sums down, by exp(old maximum - new maximum), at every piece.", invariant="I2")
@cases(
    one_piece=[([0.0, LN3], [4.0, 8.0])],
    two_pieces=[([0.0], [4.0]), ([LN3], [8.0])],
    rising=[([-LN3, -LN3, -LN3], [4.0, 4.0, 4.0]), ([0.0], [8.0]), ([LN3, LN3], [8.0, 6.0])],
    falling=[([LN3], [8.0]), ([0.0], [4.0])],
)
def test_pieces(lab, case):
    """Scores of -ln 3, 0, ln 3 are weights of 1/3, 1, 3: (4 + 3 * 8) / (1 + 3) = 7, and for the rising scores
    (3 * 4/3 + 8 + 3 * 8 + 3 * 6) / (3 * 1/3 + 1 + 3 + 3) = 6.75."""
    see = check(draw_pieces, case)
    got = add_all(lab, case).result()
    expect(see, "the weighted mean", got, [[[6.75 if len(case) == 3 else 7.0]]])


@concept("The maximum is that of all scores so far: a later piece never lowers it.", invariant="I3")
def test_a_small_score_after_a_large_one(lab):
    pieces = [([LARGE], [4.0]), ([-LARGE], [8.0])]
    see = check(draw_pieces, pieces)
    expect(see, "the weighted mean", add_all(lab, pieces).result(), [[[4.0]]])


@concept("Each head has a maximum of its own: one head's 10,000 must not drown another head's 0.", invariant="I3")
def test_heads_of_different_size(lab):
    softmax = lab.OnlineSoftmax(2, 2, 1, CPU)
    scores = [[[0.0, LN3], [LARGE, LARGE]], [[-5.0, -5.0], [5.0, 5.0 + LN3]]]
    see = check()
    softmax.add(torch.tensor(scores), torch.tensor([[[4.0], [40.0]], [[8.0], [80.0]]]))
    what = "means of scores (0, ln 3), (1e4, 1e4), (-5, -5), (5, 5 + ln 3)"
    expect(see, what, softmax.result(), [[[7.0], [6.0]], [[60.0], [70.0]]])


@concept("result() only reads: more pieces may follow, and the same answer comes twice.", invariant="I2")
def test_result_between_pieces(lab):
    pieces = [([0.0, 0.0], [4.0, 4.0]), ([LN3], [8.0])]
    see = check(draw_pieces, pieces)
    softmax = add_all(lab, pieces[:1])
    expect(see, "result after piece 0", softmax.result(), [[[4.0]]])
    expect(see, "result after piece 0, asked again", softmax.result(), [[[4.0]]])
    softmax.add(torch.tensor([[pieces[1][0]]]), torch.tensor(pieces[1][1])[:, None, None])
    expect(see, "result after piece 1", softmax.result(), [[[(4 + 4 + 3 * 8) / 5]]])


@concept("What a piece brings is read, not changed.", invariant="I2")
def test_the_piece_stays(lab):
    scores, values = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[4.0]], [[8.0]]])
    see = check()
    lab.OnlineSoftmax(1, 1, 1, CPU).add(scores, values)
    see("scores after add()", scores.tolist(), equals=[[[1.0, 2.0]]])
    see("values after add()", values.tolist(), equals=[[[4.0]], [[8.0]]])


@concept("The last block may be full or not: positions up to end - 1 count, and end does not.", invariant="I1")
@cases(
    one=(4, 1, 0.0), below=(4, 3, 1.0), full=(4, 4, 1.5), above=(4, 5, 2.0), two_full=(4, 8, 3.5),
    blocks_of_1=(1, 3, 1.0), blocks_of_3=(3, 7, 3.0), blocks_of_16=(16, 17, 8.0),
)  # fmt: skip
def test_every_length(lab, case):
    block_size, end, mean = case
    table = list(range(1, 2 + (end - 1) // block_size))
    sequence = Sequence(table, len(table) * block_size, block_size)  # the block is full of keys that come later
    expect_mean(lab, sequence, 0, end, mean)


@concept("The table says where the blocks lie, in any order and with other blocks between.", invariant="I1")
def test_blocks_lie_anywhere(lab):
    expect_mean(lab, Sequence([5, 1, 3], 9, 4, background=50.0), 0, 9, 4.0)


@concept("A window begins anywhere, in the middle of a block or behind whole blocks.", invariant="I1")
@cases(
    middle=(2, 9, 5.0), edge=(4, 9, 6.0), before_edge=(3, 9, 5.5), one_block=(5, 7, 5.5), only_itself=(8, 9, 8.0),
    behind_two=(9, 12, 10.0),
)  # fmt: skip
def test_a_window(lab, case):
    begin, end, mean = case
    expect_mean(lab, Sequence([1, 2, 3], 12, 4), begin, end, mean)


@concept("What the query does not see is not read: NaN in the slots, ids of no block in the table.", invariant="I5")
@cases(
    slots_behind=([1, 2], 6, 0, 6, 2.5),
    columns_behind=([1, 2, 2**31 - 1], 6, 0, 6, 2.5),
    columns_before=([2**31 - 1, 1, 2], 12, 4, 12, 7.5),
)
def test_what_is_outside(lab, case):
    table, length, begin, end, mean = case
    expect_mean(lab, Sequence(table, length, 4, background=math.nan), begin, end, mean)


@concept(
    "A score is query times key times the scale that was given; not every model takes 1 / sqrt(head_dim).",
    invariant="I1",
)
@cases(below=(2, 0.3), full=(3, 1.0), above=(4, 0.3), tiny_scale=(4, 0.01))
def test_scores(lab, case):
    end, scale = case
    sequence = Sequence([1, 2], 6, 3, head_dim=5, seed=end)
    query = sequence.query(1)
    see = check(sequence.draw, 0, end)
    got = sequence.attend(lab, query, 0, end, scale)
    expect(see, f"attention with scale {scale}", got, sequence.dense(query, 0, end, scale))


@concept("Query heads of a group are neighbours and share a KV head: head h reads h // group_size.", invariant="I4")
@cases(groups_of_2=(4, 2), groups_of_3=(6, 2), one_group=(3, 1), groups_of_1=(3, 3))
def test_grouped_heads(lab, case):
    num_heads, num_kv_heads = case
    sequence = Sequence([1, 2], 5, 3, num_kv_heads, head_dim=4, seed=1)
    query = sequence.query(num_heads)
    see = check(sequence.draw, 0, 5)
    got = sequence.attend(lab, query, 0, 5)
    what = f"attention of {num_heads} query heads over {num_kv_heads} KV heads"
    expect(see, what, got, sequence.dense(query, 0, 5))


@concept("exp(10,000) is infinite and exp(-10,000) is 0: only differences to the maximum go into exp.", invariant="I3")
@cases(
    rising=([-LARGE, 0.0, 0.0, LARGE, LARGE], 3.5, 1e-5),
    all_large=([LARGE] * 5, 2.0, 1e-5),
    all_small=([-LARGE] * 5, 2.0, 1e-5),
    close=([LARGE, LARGE, LARGE, LARGE, LARGE + LN3], (0 + 1 + 2 + 3 + 3 * 4) / 7, 1e-3),
)
def test_large_scores(lab, case):
    """The scores are exact in float32, but for ln 3: beside 1e4 it is rounded by 5e-4, so there 1e-3 is allowed."""
    scores, mean, bound = case
    sequence = Sequence([1, 2], 5, 3, head_dim=1)
    sequence.keys[:, 0, 0] = torch.tensor(scores)
    see = check(lambda: f"scores {scores}, values 0 1 2 3 4")
    got = sequence.attend(lab, torch.tensor([[1.0]]), 0, 5, scale=1.0)
    expect(see, "the weighted mean", got, [[mean]], bound)


@concept("bfloat16 is for storing: the arithmetic is float32, and the result is rounded once.", invariant="I1")
def test_bfloat16(lab):
    """One rounding to 8 bits is at most 2**-8 of the number; 1e-5 is allowed for float32's own error."""
    sequence = Sequence([1, 2], 16, 8, head_dim=8, seed=3, dtype=torch.bfloat16)
    query = sequence.query(4)
    query[:, 0], sequence.keys[..., 0] = 64, 4  # products near 256, where bfloat16 knows only even numbers
    see = check()
    got = sequence.attend(lab, query, 0, 16)
    see("dtype of the result for a bfloat16 query", str(got.dtype), equals="torch.bfloat16")
    expect(see, "attention over 16 keys in bfloat16", got, sequence.dense(query, 0, 16), bound=2**-8 + 1e-5)
