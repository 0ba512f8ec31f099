"""Lab 01.3: online softmax, and attention of one query over the blocks of its sequence."""

import math

import torch

from labkit import cases, check, concept, far, search

CPU = torch.device("cpu")
LN3 = math.log(3.0)
LARGE = 1e4


def shown(tensor):
    """The first numbers of a tensor."""
    numbers = [f"{x:.6g}" for x in tensor.flatten().tolist()]
    return " ".join(numbers[:8]) + (" ..." if len(numbers) > 8 else "")


def flat(nested):
    """The numbers of lists of lists of lists of lists."""
    return torch.tensor(nested, dtype=torch.float64).flatten().tolist()


def expect(see, what, got, expected, bound=1e-5):
    """Within `bound` of the largest result. float32 rounds each of some hundred operations by at most 6e-8 of it, so
    1e-5 is met with room to spare; a wrong weight or a missed key is far outside."""
    expected = torch.as_tensor(expected, dtype=torch.float64)
    see(f"shape of {what}", tuple(got.shape), equals=tuple(expected.shape))
    is_wrong = ~((got.double() - expected).abs() <= bound * expected.abs().max())
    if is_wrong.any():
        *row, column = is_wrong.nonzero()[0].tolist()
        wanted, found = (each[tuple(row)][column:] for each in (expected, got))
        see.fail(f"{what}, from {[*row, column]} on", shown(wanted), shown(found))


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

    def caches(self, begin=0, end=None):
        """Positions outside of [begin, end) hold `background`, too."""
        num_blocks = max(block for block in self.table if block < 10**6) + 2
        shape = (num_blocks, self.block_size, *self.keys.shape[1:])
        key_cache, value_cache = (torch.full(shape, self.background, dtype=self.dtype) for _ in "kv")
        end = self.length if end is None else end
        for column, block in enumerate(self.table):
            first = column * self.block_size
            seen = slice(max(begin, first), min(end, first + self.block_size))
            if block < num_blocks and seen.start < seen.stop:
                places = slice(seen.start - first, seen.stop - first)
                key_cache[block, places], value_cache[block, places] = self.keys[seen], self.values[seen]
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
        """The positions that each block holds, in brackets those that the query may not see."""
        lines = [f"blocks of {self.block_size}; the query sees positions {begin} to {end - 1}"]
        for column, block in enumerate(self.table[:5]):
            positions = range(column * self.block_size, min((column + 1) * self.block_size, self.length))
            cells = [str(p) if begin <= p < end else f"({p})" for p in positions][:16]
            lines.append(f"column {column}   block {block}   positions {' '.join(cells) or '-'}")
        return "\n".join(lines)


def expect_mean(lab, sequence, begin, end, mean):
    """A query of zeros gives every position the same weight: the result is the mean of the positions that it sees."""
    see = check(sequence.draw, begin, end)
    got = sequence.attend(lab, torch.zeros(1, 2), begin, end)
    bound = 1e-5 * max(1, (end - begin) / 2048)  # of the mean, which may be half of the largest value
    expect(see, f"mean of positions {begin} to {end - 1}", got, [[mean, mean]], bound)


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


@concept(
    "Each head has a maximum of its own: one head's 10,000 must not drown another head's 0.",
    invariant="I3",
    illustrates=True,
)
def test_heads_of_different_size(lab):
    softmax = lab.OnlineSoftmax(2, 2, 1, CPU)
    scores = [[[0.0, LN3], [LARGE, LARGE]], [[-5.0, -5.0], [5.0, 5.0 + LN3]]]
    see = check()
    softmax.add(torch.tensor(scores), torch.tensor([[[4.0], [40.0]], [[8.0], [80.0]]]))
    what = "means of scores (0, ln 3), (1e4, 1e4), (-5, -5), (5, 5 + ln 3)"
    expect(see, what, softmax.result(), [[[7.0], [6.0]], [[60.0], [70.0]]])


@concept("result() only reads: more pieces may follow, and the same answer comes twice.", invariant="I2")
@cases(two_keys=([0.0, 0.0], 6.4), one_key=([0.0], 7.0))
def test_result_between_pieces(lab, case):
    """After a piece of one key the sum of the weights is 1, and the weighted sum is the mean already."""
    scores, mean = case
    pieces = [(scores, [4.0] * len(scores)), ([LN3], [8.0])]
    see = check(draw_pieces, pieces)
    softmax = add_all(lab, pieces[:1])
    first = softmax.result()
    expect(see, "result after piece 0", first, [[[4.0]]])
    again = softmax.result()
    expect(see, "result after piece 0, asked again", again, [[[4.0]]])
    again += 100
    softmax.add(torch.tensor([[pieces[1][0]]]), torch.tensor(pieces[1][1])[:, None, None])
    what = "result after piece 1, while the caller added 100 to its second result"
    expect(see, what, softmax.result(), [[[mean]]])
    expect(see, "the first result, which the caller kept", first, [[[4.0]]])


@concept("Two softmaxes know nothing of each other.", invariant="I2", illustrates=True)
def test_two_at_once(lab):
    one, other = (lab.OnlineSoftmax(1, 1, 1, CPU) for _ in range(2))
    see = check(lambda: "one: scores 0, ln 3, values 4, 8; the other: scores 10000, 10000, values 1, 2; by turns")
    for score, value, large in ((0.0, 4.0, 1.0), (LN3, 8.0, 2.0)):
        other.add(torch.tensor([[[LARGE]]]), torch.tensor([[[large]]]))
        one.add(torch.tensor([[[score]]]), torch.tensor([[[value]]]))
    expect(see, "result of the one", one.result(), [[[7.0]]])
    expect(see, "result of the other", other.result(), [[[1.5]]])


@concept("What a piece brings is read, not changed.", invariant="I2")
def test_the_piece_stays(lab):
    scores, values = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[4.0]], [[8.0]]])
    see = check()
    lab.OnlineSoftmax(1, 1, 1, CPU).add(scores, values)
    see("scores after add()", scores.tolist(), equals=[[[1.0, 2.0]]])
    see("values after add()", values.tolist(), equals=[[[4.0]], [[8.0]]])


@concept(
    "add() is done with the tensors of a piece when it returns: the caller may fill them again.",
    invariant="I2",
)
@cases(of_one=[([0.0], [4.0]), ([LN3], [8.0])], of_two=[([0.0, 0.0], [4.0, 4.0]), ([LN3, LN3], [8.0, 8.0])])
def test_a_piece_is_filled_anew(lab, case):
    see = check(draw_pieces, case)
    n = len(case[0][0])
    softmax, scores, values = lab.OnlineSoftmax(1, 1, 1, CPU), torch.zeros(1, 1, n), torch.zeros(n, 1, 1)
    for new_scores, new_values in case:
        scores[:], values[:, 0, 0] = torch.tensor(new_scores), torch.tensor(new_values)
        softmax.add(scores, values)
    expect(see, "the weighted mean of two pieces, which came in the same tensors", softmax.result(), [[[7.0]]])


MANY_BLOCKS, LARGE_BLOCK = far(2_101, 6_000), far(5_000, 20_000)


@concept("The last block may be full or not: positions up to end - 1 count, and end does not.", invariant="I1")
@cases(
    one=(4, 1, 0.0), below=(4, 3, 1.0), full=(4, 4, 1.5), above=(4, 5, 2.0), two_full=(4, 8, 3.5),
    blocks_of_1=(1, 3, 1.0), blocks_of_3=(3, 7, 3.0), blocks_of_16=(16, 17, 8.0),
    many_blocks=(1, MANY_BLOCKS, (MANY_BLOCKS - 1) / 2),
    a_large_block=(LARGE_BLOCK, LARGE_BLOCK, (LARGE_BLOCK - 1) / 2),
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
    slots_before=([1, 2], 8, 2, 8, 4.5),
    columns_behind=([1, 2, 2**31 - 1], 6, 0, 6, 2.5),
    columns_behind_a_full_block=([1, 2**31 - 1], 4, 0, 4, 1.5),
    columns_before=([2**31 - 1, 1, 2], 12, 4, 12, 7.5),
)
def test_what_is_outside(lab, case):
    table, length, begin, end, mean = case
    sequence = Sequence(table, length, 4, background=math.nan)
    see = check(sequence.draw, begin, end)
    got = lab.attend_one(torch.zeros(1, 2), *sequence.caches(begin, end), list(table), begin, end, 1.0)
    expect(see, f"mean of positions {begin} to {end - 1}, where all other slots hold NaN", got, [[mean, mean]])


@concept("What the query sees is not mended: NaN and infinities show in the result.", invariant="I5")
@cases(nan_key=("keys", math.nan, math.nan), infinite_value=("values", math.inf, math.inf))
def test_what_is_inside(lab, case):
    name, number, mean = case
    for length, position in (5, 2), (1, 0):
        sequence = Sequence([1, 2], length, 3)
        getattr(sequence, name)[position] = number
        see = check(sequence.draw, 0, length)
        got = sequence.attend(lab, torch.zeros(1, 2), 0, length)
        what = f"attention of a query of zeros over {length}; the {name} of position {position} are {number}"
        see(what, shown(got), equals=shown(torch.tensor([mean, mean])))


@concept("What the query sees shows, however quiet it is: 0 times infinity is NaN.", invariant="I5", illustrates=True)
@cases(
    a_little_quiet=(20.0, math.inf), quiet=(150.0, math.inf), very_quiet=(1000.0, -math.inf), nan=(1000.0, math.nan),
    quiet_nan=(20.0, math.nan),
)  # fmt: skip
def test_quiet_values(lab, case):
    """The scores of one block, the first or a later one, are far below the largest. One of its values is no number."""
    below, number = case
    for position in (0, 5, 8):
        sequence = Sequence([1, 2, 4], 9, 3)
        sequence.keys[:] = 0.0
        first = position // 3 * 3
        sequence.keys[first : first + 3, :, 0] = -below
        sequence.values[position] = number
        see = check(sequence.draw, 0, 9)
        got = sequence.attend(lab, torch.tensor([[1.0, 0.0]]), 0, 9, 1.0)
        what = f"whether the result is finite; the value of position {position} is {number}, its score {below:g} below"
        see(what, bool(got.isfinite().any()), equals=False)


@concept("Query, caches and table are read, not changed.", invariant="I6")
@cases(float32=torch.float32, bfloat16=torch.bfloat16)
def test_what_is_passed_stays(lab, case):
    """A tensor that is float32 already is not copied by float(): what changes the one changes the other."""
    sequence = Sequence([1, 2], 5, 3, seed=4, dtype=case)
    query, table, (key_cache, value_cache) = sequence.query(1), [1, 2] + [9] * 98, sequence.caches()
    before = [each.tolist() for each in (query, key_cache, value_cache)]
    see = check(sequence.draw, 0, 5)
    lab.attend_one(query, key_cache, value_cache, table, 0, 5, 0.5)
    see("the query after the call", query.tolist(), equals=before[0])
    see("the key cache after the call", key_cache.flatten().tolist(), equals=flat(before[1]))
    see("the value cache after the call", value_cache.flatten().tolist(), equals=flat(before[2]))
    see("columns of the table after the call", len(table), equals=100)
    see("the first of them", table[:3], equals=[1, 2, 9])
    for end in 5, 1:
        lab.attend_one(query, key_cache, value_cache, table, 0, end, 0.5).add_(100)
        what = f"the value cache, after the caller changed the result of positions 0 to {end - 1}"
        see(what, value_cache.flatten().tolist(), equals=flat(before[2]))


@concept("The cache is read at each call: it has changed since the last one.", invariant="I1")
def test_the_cache_changes(lab):
    sequence = Sequence([1], 3, 4)
    key_cache, value_cache = sequence.caches()
    see = check(sequence.draw, 0, 3)
    query = torch.tensor([[1.0, 0.0]])
    first = lab.attend_one(query, key_cache, value_cache, [1], 0, 3, 1.0)
    expect(see, "mean of positions 0 to 2", first, [[1.0, 1.0]])
    value_cache[1, 2] = 8.0
    second = lab.attend_one(query, key_cache, value_cache, [1], 0, 3, 1.0)
    expect(see, "the same, after the value of position 2 became 8 in the same cache", second, [[3.0, 3.0]])
    key_cache[1, 1] = 100.0
    third = lab.attend_one(query, key_cache, value_cache, [1], 0, 3, 1.0)
    expect(see, "the same, after the key of position 1 became 100: all weight is there", third, [[1.0, 1.0]])
    value_cache.numpy()[1, 1] = 5.0  # torch does not count this as a change
    fourth = lab.attend_one(query, key_cache, value_cache, [1], 0, 3, 1.0)
    expect(see, "the same, after the value of position 1 became 5 by way of NumPy", fourth, [[5.0, 5.0]])


@concept("The table is read at each call: the caller changes its list.", invariant="I1", illustrates=True)
def test_the_table_changes(lab):
    sequence = Sequence([1, 2, 3], 12, 4)
    key_cache, value_cache = sequence.caches()
    see = check(sequence.draw, 0, 8)
    table = [1, 2]
    first = lab.attend_one(torch.zeros(1, 2), key_cache, value_cache, table, 0, 8, 1.0)
    expect(see, "mean of positions 0 to 7", first, [[3.5, 3.5]])
    table[0] = 3
    second = lab.attend_one(torch.zeros(1, 2), key_cache, value_cache, table, 0, 8, 1.0)
    expect(see, "mean of the values 8 to 11 and 4 to 7, after column 0 of the list became 3", second, [[7.5, 7.5]])


@concept(
    "A score is query times key times the scale that was given; not every model takes 1 / sqrt(head_dim).",
    invariant="I1",
)
@cases(
    below=(2, 0.3, 5),
    full=(3, 1.0, 5),
    above=(4, 0.3, 5),
    tiny_scale=(4, 0.01, 5),
    no_scale=(4, 0.0, 5),
    negative_scale=(4, -0.3, 5),
    wide=(4, 0.1, far(1_100, 3_000)),
)
def test_scores(lab, case):
    end, scale, head_dim = case
    sequence = Sequence([1, 2], 6, 3, head_dim=head_dim, seed=end)
    query = sequence.query(1)
    see = check(sequence.draw, 0, end)
    got = sequence.attend(lab, query, 0, end, scale)
    expect(see, f"attention with scale {scale}", got, sequence.dense(query, 0, end, scale))


MANY_HEADS = far(70, 300)


@concept("Query heads of a group are neighbours and share a KV head: head h reads h // group_size.", invariant="I4")
@cases(groups_of_2=(4, 2), groups_of_3=(6, 2), one_group=(3, 1), groups_of_1=(3, 3), many=(2 * MANY_HEADS, MANY_HEADS))
def test_grouped_heads(lab, case):
    num_heads, num_kv_heads = case
    sequence = Sequence([1, 2], 5, 3, num_kv_heads, head_dim=4, seed=1)
    query = sequence.query(num_heads)
    see = check(sequence.draw, 0, 5)
    got = sequence.attend(lab, query, 0, 5)
    what = f"attention of {num_heads} query heads over {num_kv_heads} KV heads"
    expect(see, what, got, sequence.dense(query, 0, 5))


@concept("NaN in one KV head stays there: the query heads of other KV heads do not see it.", invariant="I4")
@cases(in_the_keys="keys", in_the_values="values")
def test_nan_in_another_head(lab, case):
    sequence = Sequence([1, 2], 5, 3, num_kv_heads=2, seed=5)
    getattr(sequence, case)[2, 1] = math.nan
    query = sequence.query(4)
    see = check(sequence.draw, 0, 5)
    got = sequence.attend(lab, query, 0, 5)[:2]
    what = f"attention of heads 0 and 1, which read KV head 0; the {case} of KV head 1 hold NaN"
    expect(see, what, got, sequence.dense(query, 0, 5)[:2])


@concept(
    "exp(10,000) is infinite and exp(-10,000) is 0: only differences to the maximum go into exp, for any scores.",
    invariant="I3",
)
@cases(
    rising=([-LARGE, 0.0, 0.0, LARGE, LARGE], 3.5, 1e-5),
    all_large=([LARGE] * 5, 2.0, 1e-5),
    all_small=([-LARGE] * 5, 2.0, 1e-5),
    close=([LARGE, LARGE, LARGE, LARGE, LARGE + LN3], (0 + 1 + 2 + 3 + 3 * 4) / 7, 1e-3),
    beyond_float16=([7e4, 7e4, 8e4, 8e4, 8e4], 3.0, 1e-5),
    below_float16=([-8e4, -8e4, -7e4, -7e4, -7e4], 3.0, 1e-5),
    thirty_thousand_below=([-3.1e4] * 5, 2.0, 1e-5),
    far_below=([-2e38] * 5, 2.0, 1e-5),
    far_above=([2e38] * 5, 2.0, 1e-5),
    far_apart=([1e38, 1e38, 2e38, 2e38, 2e38], 3.0, 1e-5),
    far_apart_below=([-2e38, -2e38, -1e38, -1e38, -1e38], 3.0, 1e-5),
)
def test_large_scores(lab, case):
    """The scores are exact in float32, but for ln 3: beside 1e4 it is rounded by 5e-4, so there 1e-3 is allowed. The
    last block has a slot that the query does not see, whose key is 0."""
    scores, mean, bound = case
    sequence = Sequence([1, 2], 5, 3, head_dim=1)
    sequence.keys[:, 0, 0] = torch.tensor(scores)
    see = check(lambda: f"scores {scores}, values 0 1 2 3 4")
    got = sequence.attend(lab, torch.tensor([[1.0]]), 0, 5, scale=1.0)
    expect(see, "the weighted mean", got, [[mean]], bound)
    if abs(scores[0]) < 1e6:  # beyond, a sum of weights that is kept as a logarithm has no digits
        pieces = [(scores[:3], [0.0, 1.0, 2.0]), (scores[3:], [3.0, 4.0])]
        expect(see, "the same in two pieces", add_all(lab, pieces).result(), [[[mean]]], bound)


@concept("With a negative scale the smallest product is the largest score.", invariant="I3", illustrates=True)
@cases(rising=([-LARGE, 0.0, 0.0, LARGE, LARGE], 3.5), falling=([LARGE, LARGE, 0.0, -LARGE, -LARGE], 0.5))
def test_large_scores_of_a_negative_scale(lab, case):
    scores, mean = case
    sequence = Sequence([1, 2], 5, 3, head_dim=1)
    sequence.keys[:, 0, 0] = -torch.tensor(scores)
    see = check(lambda: f"products {[-each for each in scores]}, scale -1, values 0 1 2 3 4")
    got = sequence.attend(lab, torch.tensor([[1.0]]), 0, 5, scale=-1.0)
    expect(see, "the weighted mean", got, [[mean]])


@concept("Many small weights are a large one: no key in sight is too quiet to count.", invariant="I1")
@cases(ten_below=(10.0, 60, 4), fourteen_below=(14.0, 600, 4), sixty_below=(60.0, 5_000, 4096))
def test_many_quiet_keys(lab, case):
    """The first key has the largest score and the value 1; the others have the value 3, and together a weight that
    changes the mean by more than 1e-4. Keys that are 60 below weigh nothing, even together."""
    below, num_quiet, size = case
    sequence = Sequence(list(range(1, 2 + num_quiet // size)), 1 + num_quiet, size, head_dim=1)
    sequence.keys[:], sequence.values[:] = -below, 3.0
    sequence.keys[0], sequence.values[0] = 0.0, 1.0
    weight = num_quiet * math.exp(-below)
    see = check(lambda: f"scores 0 and {num_quiet} times {-below}, values 1 and {num_quiet} times 3")
    got = sequence.attend(lab, torch.tensor([[1.0]]), 0, 1 + num_quiet, scale=1.0)
    expect(see, "the weighted mean", got, [[(1 + 3 * weight) / (1 + weight)]])


@concept("The result has the dtype of the query, whatever the caches store.", invariant="I6")
@cases(
    both=(torch.bfloat16, torch.bfloat16, 2**-8),
    query_in_float32=(torch.float32, torch.bfloat16, 0),
    caches_in_float32=(torch.float16, torch.float32, 2**-11),
)
def test_dtypes(lab, case):
    of_query, of_caches, roundoff = case
    sequence = Sequence([1, 2], 5, 3, head_dim=4, seed=6, dtype=of_caches)
    query = (sequence.query(2).float() + 2**-9).to(of_query)  # not in bfloat16, if it is float32
    see = check(sequence.draw, 0, 5)
    got = sequence.attend(lab, query, 0, 5)
    see(f"dtype of the result, with caches in {of_caches}", str(got.dtype), equals=str(of_query))
    what = f"attention of a query in {of_query}, with caches in {of_caches}"
    expect(see, what, got, sequence.dense(query, 0, 5), bound=roundoff + 1e-5)


def draw_numbers(block_size, scale, query, keys, values):
    """A query and the first keys."""
    more = " ..." if len(keys) > 3 else ""
    return f"blocks of {block_size}, scale {scale}, query {query}\nkeys {keys[:3]}{more}\nvalues {values[:3]}{more}"


@concept(
    "Scores, weights and sums are float32: what nearly cancels shows when one of them was rounded to 16 bits.",
    invariant="I6",
)
@cases(
    products=(4, [1 + 2**-7, 1.0], [[128.0, -129.0], [0.0, 0.0]], [0.0, 1.0], 0.3, 0.5),
    weights=(4, [1.0], [[0.0], [-(2**-13)]], [4096.0, -4096.0], 1.0, 0.25),
    weighted_sums=(1, [1.0], [[0.0], [-(2**-13)]], [4096.0, -4096.0], 1.0, 0.25),
    sums_of_weights=(1, [1.0], [[0.0], *[[-5.75]] * 5], [1.0] * 6, 1.0, 1.0),
    large_products=(4, [512.0], [[256.0], [256.0]], [0.0, 1.0], 2**-10, 0.5),
)
def test_what_is_rounded(lab, case):
    """products: 1.0078125 * 128 - 129 = 0, so both weights are 1/2. weights: those of 4096 and -4096 are 1 and
    1 - 2**-13. sums_of_weights: beside 1, bfloat16 does not see exp(-5.75), five times.
    large_products: 131,072 is beyond float16. float32 is right to 6e-8 of 4096, which is 1e-3 of 0.25."""
    block_size, query, keys, values, scale, mean = case
    for dtype, roundoff in ((torch.bfloat16, 2**-8), (torch.float16, 2**-11)):
        sequence = Sequence(list(range(-(-len(keys) // block_size))), len(keys), block_size, head_dim=len(query))
        sequence.keys = torch.tensor(keys)[:, None].to(dtype)
        sequence.values = torch.tensor(values)[:, None, None].expand(-1, 1, len(query)).to(dtype)
        sequence.dtype = dtype
        see = check(draw_numbers, block_size, scale, query, keys, values)
        got = sequence.attend(lab, torch.tensor([query]).to(dtype), 0, len(keys), scale)
        expect(see, f"attention in {dtype}", got, [[mean] * len(query)], bound=roundoff + 1e-3)


@concept("A query and caches of two dtypes: neither is rounded to the other's.", invariant="I6")
@cases(
    keys=(torch.bfloat16, torch.float32, [1.0], [[4097.0], [4096.0]], [0.0, 1.0], LN3, 0.25, 1e-2),
    values=(torch.bfloat16, torch.float32, [0.0], [[0.0], [0.0]], [4097.0, -4096.0], 1.0, 0.5, 1e-3),
    query=(torch.float32, torch.float16, [4097.0, -4096.0], [[1.0, 1.0], [0.0, 0.0]], [0.0, 1.0], LN3, 0.25, 1e-3),
    result=(torch.float32, torch.float16, [0.0], [[0.0], [0.0]], [1.0, 1 + 2**-10], 1.0, 1 + 2**-11, 1e-5),
)
def test_two_dtypes(lab, case):
    """Beside 4096, 16 bits know no 4097. Scores of 4500 in float32 are right to 5e-4, so the first bound is wide."""
    of_query, of_caches, query, keys, values, scale, mean, bound = case
    sequence = Sequence([0], len(keys), 4, head_dim=len(query), dtype=of_caches)
    sequence.keys = torch.tensor(keys)[:, None].to(of_caches)
    sequence.values = torch.tensor(values)[:, None, None].expand(-1, 1, len(query)).to(of_caches)
    see = check(draw_numbers, 4, scale, query, keys, values)
    got = sequence.attend(lab, torch.tensor([query]).to(of_query), 0, len(keys), scale)
    expect(see, f"attention of a query in {of_query}, with caches in {of_caches}", got, [[mean] * len(query)], bound)


def any_pieces(rng, size):
    """Shapes, the lengths of the pieces, and how far the scores lie apart."""
    shape = rng.randint(1, 3), rng.randint(1, 4), rng.randint(1, 4)
    return (
        shape,
        [rng.randint(1, 2 + size // 2) for _ in range(rng.randint(1, 2 + size // 2))],
        rng.choice((1, 10, LARGE)),
    )


@concept("However the scores are cut, the result is one softmax over all of them.", invariant="I2", searches=True)
def test_any_pieces(lab):
    def judge(lab, case):
        (num_kv_heads, group_size, head_dim), lengths, spread = case
        generator = torch.Generator().manual_seed(sum(lengths))
        scores = spread * torch.randn(num_kv_heads, group_size, sum(lengths), generator=generator)
        values = torch.randn(sum(lengths), num_kv_heads, head_dim, generator=generator)
        pieces = [each.tolist() for each in scores[0, 0].split(lengths)]
        see = check(draw_pieces, [([round(x, 2) for x in piece[:6]], "at random") for piece in pieces])
        softmax = lab.OnlineSoftmax(num_kv_heads, group_size, head_dim, CPU)
        for part, brought in zip(scores.split(lengths, -1), values.split(lengths)):
            softmax.add(part.clone(), brought.clone())
        expected = torch.softmax(scores.double(), -1) @ values.double().transpose(0, 1)
        what = f"result of {num_kv_heads} KV heads, groups of {group_size}, head_dim {head_dim}"
        expect(see, what, softmax.result(), expected)

    search(lab, any_pieces, judge, 12)


def any_sequence(rng, size):
    """Shapes, a table in any order, and what of it the query sees: at first one key, later some dozens of blocks."""
    block_size, num_columns = rng.choice((1, 2, 3, 4, 7)), rng.randint(1 + size // 2, 1 + 2 * size)
    end = rng.randint(1, block_size * num_columns)
    begin = rng.randrange(end) if size % 2 else 0
    table = rng.sample(range(2 * num_columns), num_columns)
    num_kv_heads, group, head_dim = rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 6)
    return block_size, table, begin, end, num_kv_heads, num_kv_heads * group, head_dim, rng.choice((0.1, 1.0, 4.0))


@concept(
    "Whatever the shapes, attention over blocks is a softmax over all keys in sight.", invariant="I1", searches=True
)
def test_any_sequence(lab):
    def judge(lab, case):
        block_size, table, begin, end, num_kv_heads, num_heads, head_dim, scale = case
        length = block_size * len(table)
        sequence = Sequence(table, length, block_size, num_kv_heads, head_dim, math.nan, seed=length)
        query, caches = sequence.query(num_heads), sequence.caches(begin, end)
        see = check(sequence.draw, begin, end)
        got = lab.attend_one(query, *caches, [*table, 10**9], begin, end, scale)
        what = f"attention of {num_heads} heads over {num_kv_heads} KV heads of {head_dim} numbers, scale {scale}"
        expect(see, what, got, sequence.dense(query, begin, end, scale))

    search(lab, any_sequence, judge, 24)
