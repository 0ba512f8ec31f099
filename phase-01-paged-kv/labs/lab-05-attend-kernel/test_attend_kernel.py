"""Lab 01.5: the attention kernel, a row and a head a program. Tiny shapes, since without a GPU it is interpreted."""

import math
from itertools import accumulate

import numpy as np
import torch

from labkit import cases, check, concept, far, search
from labkit.kernels.strays import watched

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LARGE = 1e4
BAND = 64  # NaN (or 0, for whole numbers) before and behind each tensor
FAR = 0 if DEVICE == "cuda" else 2**33  # where the interpreter pretends that the caches lie, in numbers


def guarded(tensor):
    """The tensor between two bands, and its whole memory. Block 0 and slot 0 of the bands are nobody's."""
    filling = torch.nan if tensor.is_floating_point() else 0
    memory = torch.full((tensor.numel() + 2 * BAND,), filling, dtype=tensor.dtype, device=DEVICE)
    return memory[BAND:-BAND].view(tensor.shape).copy_(tensor), memory


def shown(tensor):
    """The first numbers of a tensor."""
    numbers = [f"{x:.6g}" for x in tensor.flatten().tolist()]
    return " ".join(numbers[:8]) + (" ..." if len(numbers) > 8 else "")


class Batch:
    """Requests (table, start, num_tokens) and their caches. Keys are zeros and values the positions, or both random;
    what belongs to no position is `background`. Block 0 is nobody's: a request of [0] has no tokens at all."""

    def __init__(self, requests, block_size=4, num_kv_heads=1, head_dim=2, background=0.0, seed=None, dtype=None):
        self.requests, self.block_size, self.num_padded, self.far = requests, block_size, 0, 0
        self.dtype = dtype or torch.float32
        self.generator = torch.Generator().manual_seed(seed or 0)
        num_blocks = max(max(table) for table, _, _ in requests) + 1
        shape = (num_blocks, block_size, num_kv_heads, head_dim)
        caches = [torch.full(shape, background) for _ in "kv"]
        self.histories = []
        for table, start, num_tokens in requests:
            size = (start + num_tokens, num_kv_heads, head_dim)
            keys, values = (torch.randn(size, generator=self.generator).to(self.dtype).float() for _ in "kv")
            if seed is None:
                keys, values = torch.zeros(size), torch.arange(size[0])[:, None, None].expand(size).float()
            self.histories.append((keys, values))
            for column, block in enumerate(table[: -(-size[0] // block_size)]):
                seen = slice(column * block_size, min((column + 1) * block_size, size[0]))
                places = slice(0, seen.stop - seen.start)
                caches[0][block, places], caches[1][block, places] = keys[seen], values[seen]
        self.caches = [guarded(cache.to(self.dtype))[0] for cache in caches]
        self.num_rows = sum(num_tokens for _, _, num_tokens in requests)

    def queries(self, num_heads):
        shape = (self.num_rows, num_heads, self.caches[0].shape[3])
        return guarded(torch.randn(shape, generator=self.generator).to(self.dtype))[0]

    def metadata(self, lab):
        lens = [num_tokens for _, _, num_tokens in self.requests]
        lengths = [start + num_tokens if table != [0] else 0 for table, start, num_tokens in self.requests]
        width = max(len(table) for table, _, _ in self.requests)
        first = self.far // self.caches[0][0].numel()
        tables = [[first + block for block in table] + [10**9] * (width - len(table)) for table, _, _ in self.requests]

        positions = [p for _, start, n in self.requests for p in range(start, start + n)] + [0] * self.num_padded

        def numbers(each, dtype=torch.int32):
            return guarded(torch.tensor(each, dtype=dtype))[0]

        return lab.AttentionMetadata(
            positions=numbers(positions, torch.int64),
            slot_mapping=numbers([-1] * (self.num_rows + self.num_padded), torch.int64),
            query_start_loc=numbers([*accumulate(lens, initial=0)]),
            seq_lens=numbers(lengths),
            block_tables=numbers(tables),
            block_size=self.block_size,
            query_lens_cpu=np.array(lens),
            seq_lens_cpu=np.array(lengths),
        )

    def attend(self, lab, query, scale=None, sliding_window=None):
        from mini_vllm.attention.triton_simple import attend_rows, plan_rows

        self.output, self.memory = guarded(torch.full(query.shape, torch.nan, dtype=query.dtype))
        scale = query.shape[2] ** -0.5 if scale is None else scale
        spec = lab.AttentionSpec(query.shape[1], self.caches[0].shape[2], query.shape[2], scale, sliding_window)
        plan = plan_rows(self.metadata(lab), spec)
        caches = dict(zip(("key_cache", "value_cache"), self.caches))
        names = ("request_of_row", "query_start_loc", "seq_lens", "block_tables")
        tables = dict(zip(names, plan[1:]))
        far = dict.fromkeys(caches, self.far)
        with watched(far, query=query, output=self.output, **caches, **tables) as self.strays:
            attend_rows(query, *self.caches, plan, self.output)
        return self.output

    def dense(self, query, scale=None, sliding_window=None):
        """The definition in float64: a softmax of all scores at once, over keys and values side by side."""
        scale = query.shape[2] ** -0.5 if scale is None else scale
        rows, row = [], 0
        for (keys, values), (_, start, num_tokens) in zip(self.histories, self.requests):
            for end in range(start + 1, start + num_tokens + 1):
                seen = slice(max(0, end - (sliding_window or end)), end)
                for head, q in enumerate(query[row].cpu().double()):
                    kv_head = head // (query.shape[1] // keys.shape[1])
                    scores = scale * (keys[seen, kv_head].double() @ q)
                    rows.append(torch.softmax(scores, 0) @ values[seen, kv_head].double())
                row += 1
        return torch.stack(rows).view(query.shape)

    def draw(self):
        """Whose rows there are, and where their keys lie."""
        lines, row = [f"blocks of {self.block_size}"], 0
        for i, (table, start, num_tokens) in enumerate(self.requests):
            if num_tokens == 0:
                continue
            rows = f"row {row}" if num_tokens == 1 else f"rows {row} to {row + num_tokens - 1}"
            last = start + num_tokens - 1
            positions = f"position {start}" if num_tokens == 1 else f"positions {start} to {last}"
            blocks = " ".join(map(str, table if len(table) < 16 else [*table[:8], "...", table[-1]]))
            where = f"{positions} of 0 to {last}   blocks {blocks}" if table != [0] else "no tokens"
            lines.append(f"request {i}   {rows}: {where}")
            row += num_tokens
        return "\n".join(lines)

    def expect(self, see, what, got, expected, bound=1e-5):
        """Within `bound` of the largest result; float32 rounds each of a hundred operations by at most 6e-8 of it."""
        see(f"rows of {what}", len(got), equals=len(expected))
        is_wrong = ~((got.cpu().double() - expected).abs() <= bound * expected.abs().max())
        if is_wrong.any():
            *row, column = is_wrong.nonzero()[0].tolist()
            wanted, found = (each[tuple(row)][column:] for each in (expected, got.cpu()))
            see.fail(f"{what}, from {[*row, column]} on", shown(wanted), shown(found))

    def expect_means(self, lab, means, **options):
        """A query of zeros gives each position the same weight: a row is the mean of the positions that it sees."""
        see = check(self.draw)
        query = torch.zeros(self.num_rows, 1, 2, device=DEVICE)
        got = self.attend(lab, query, **options)
        see("means of the positions that each row sees", [round(x, 4) for x in got[:, 0, 0].tolist()], equals=means)

    def expect_dense(self, lab, what, query, bound=1e-5, scale=None, sliding_window=None):
        see, expected = check(self.draw), self.dense(query, scale, sliding_window)
        self.expect(see, what, self.attend(lab, query, scale, sliding_window), expected, bound)
        return see


@concept("A row sees up to its own position, however full the last block is.", invariant="I1")
@cases(
    one=(4, 1, 0.0), below=(4, 3, 1.0), full=(4, 4, 1.5), above=(4, 5, 2.0), blocks_of_1=(1, 2, 0.5),
    full_3=(3, 3, 1.0), above_3=(3, 4, 1.5),
)  # fmt: skip
def test_every_length(lab, case):
    block_size, length, mean = case
    table = list(range(1, 2 + (length - 1) // block_size))
    Batch([(table, length - 1, 1)], block_size).expect_means(lab, [mean])


@concept(
    "Each row of a chunk sees one position more than the row before it, and none that comes later.", invariant="I1"
)
@cases(
    prompt=([([1], 0, 3)], [0.0, 0.5, 1.0]),
    later_chunk=([([1, 2], 2, 3)], [1.0, 1.5, 2.0]),
    over_an_edge=([([1, 2], 3, 2)], [1.5, 2.0]),
    behind_a_decode=([([1], 1, 1), ([1], 1, 2)], [0.5, 0.5, 1.0]),  # both share block 1
)
def test_a_chunk_is_causal(lab, case):
    requests, means = case
    Batch(requests).expect_means(lab, means)


@concept(
    "A row belongs to one request: its table, its length, and its place among this request's rows count.",
    invariant="I1",
    illustrates=True,
)
@cases(
    long_and_short=([([1, 2], 4, 1), ([3], 1, 1)], [2.0, 100.5]),
    short_and_long=([([1], 1, 1), ([2, 3], 4, 1)], [0.5, 102.0]),
    many=([([1], 1, 1)] + [([2], 1, 1)] * 7, [0.5] + [100.5] * 7),
)
def test_two_requests(lab, case):
    """The values of request 1 are its positions plus 100."""
    requests, means = case
    batch = Batch(requests)
    batch.caches[1][requests[1][0][0] :] += 100
    batch.expect_means(lab, means)


@concept("The table says where the blocks lie, in any order and with other blocks between.", invariant="I1")
def test_blocks_lie_anywhere(lab):
    Batch([([5, 1, 3], 8, 1)], background=50.0).expect_means(lab, [4.0])


@concept(
    "Requests, heads, blocks and keys of a block are as many as the arrays hold.", invariant="I1", illustrates=True
)
@cases(
    requests=(far(2_000, 40_000), 4, 2, 1),
    heads=(1, 4, 2, far(66, 200)),
    blocks=(1, 1, far(70, 1_200), 1),
    keys_of_a_block=(1, far(2_100, 4_096), 1, 1),
)
def test_many(lab, case):
    """The last request alone has a row, and sees all keys of its blocks."""
    num_requests, block_size, num_blocks, num_heads = case
    last = block_size * num_blocks - 1
    batch = Batch([([0], 0, 0)] * (num_requests - 1) + [(list(range(1, num_blocks + 1)), last, 1)], block_size)
    see = check(batch.draw)
    got = batch.attend(lab, torch.zeros(1, num_heads, 2, device=DEVICE))
    what = f"means of {num_heads} heads of the last of {num_requests} requests, {num_blocks} blocks of {block_size}"
    batch.expect(see, what, got, torch.full((1, num_heads, 2), last / 2, dtype=torch.float64))


@concept("A window of w keeps the last w positions, the row's own among them.", invariant="I1", illustrates=True)
@cases(
    only_itself=(1, 5, [5.0]), middle=(3, 5, [4.0]), edge=(2, 5, [4.5]), wider_than_all=(9, 5, [2.5]),
    behind_a_block=(2, 9, [8.5]), in_the_third=(2, 11, [10.5]),
)  # fmt: skip
def test_a_window(lab, case):
    window, position, means = case
    Batch([([1, 2, 3], position, 1)]).expect_means(lab, means, sliding_window=window)


@concept("Each row has a window of its own, which ends at its own position.", invariant="I1")
def test_rows_with_windows(lab):
    requests = [([1, 2], 2, 3), ([3, 4], 5, 1)]
    Batch(requests).expect_means(lab, [1.5, 2.5, 3.5, 4.5], sliding_window=2)


@concept("A window that is wider than the past begins at position 0, and not before the table.", invariant="I1")
def test_a_wide_window(lab):
    for window in 40, 2**31 - 1:
        batch = Batch([([1, 2], 4, 1), ([3, 4], 4, 1)])
        batch.expect_means(lab, [2.0, 2.0], sliding_window=window)
        check(batch.draw)("what is touched out of place", batch.strays, equals=[])


@concept(
    "A window may have any number of positions, and the one before it is not seen.", invariant="I1", illustrates=True
)
def test_a_long_window(lab):
    window = far(1_050, 2_000)
    batch = Batch([([3, 1, 2], window + 99, 1)], block_size=2048)
    see = check(batch.draw)
    got = batch.attend(lab, torch.zeros(1, 1, 2, device=DEVICE), sliding_window=window)
    expected = torch.full((1, 1, 2), 99 + (window + 1) / 2, dtype=torch.float64)
    batch.expect(see, f"mean of the last {window} of {window + 100} positions", got, expected)


@concept("What a row does not see is not summed: 0 times NaN is NaN.", invariant="I5", illustrates=True)
@cases(slots_behind=(5, 6, 2.5), slots_before=(6, 2, 5.5))
def test_what_is_outside(lab, case):
    position, window, mean = case
    batch = Batch([([1, 2], position, 1)], background=math.nan)
    for cache in batch.caches:
        cache.flatten(0, 1)[: 4 + position - window + 1] = math.nan  # block 1 begins at slot 4
    batch.expect_means(lab, [mean], sliding_window=window)


@concept("The softmax of nothing is 0 here: rows of no request, and of a request without tokens.", invariant="I4")
def test_rows_that_see_nothing(lab):
    batch = Batch([([1], 2, 1), ([0], 0, 1)])  # the second has a row, and a sequence of 0 tokens
    batch.num_padded = 1
    query = torch.full((3, 1, 2), math.nan, device=DEVICE)
    query[0] = 0
    see = check(batch.draw)
    got = batch.attend(lab, query)
    see("mean of the row that sees positions 0 to 2", got[0, 0].tolist(), equals=[1.0, 1.0])
    see("row 1, whose request has no tokens", got[1, 0].tolist(), equals=[0.0, 0.0])
    see("row 2, of no request", got[2, 0].tolist(), equals=[0.0, 0.0])


@concept("A request may have more rows than tokens: its first rows see nothing, and become 0.", invariant="I4")
@cases(one_row=([([1], -1, 3)], [0.0, 100.0, 100.5]), three_rows=([([1], -3, 4)], [0.0, 0.0, 0.0, 100.0]))
def test_more_rows_than_tokens(lab, case):
    """The values are the positions plus 100."""
    requests, means = case
    batch = Batch(requests)
    batch.caches[1][1] += 100
    batch.expect_means(lab, means)


@concept("A score is query times key times the scale that was given.", invariant="I2")
@cases(small=0.3, large=2.0)
def test_scores(lab, case):
    batch = Batch([([1, 2], 4, 1)], head_dim=4, seed=1)
    batch.expect_dense(lab, f"attention with scale {case}", batch.queries(1), scale=case)


@concept(
    "A head is padded to a power of two; the padding belongs to the next head, or to no head.",
    invariant="I5",
    illustrates=True,
)
@cases(of_3=3, of_5=5, of_200=200, of_256=256)
def test_head_dim(lab, case):
    batch = Batch([([1], 2, 1)], num_kv_heads=2, head_dim=case, background=math.nan, seed=2)
    batch.expect_dense(lab, f"attention with head_dim {case}, where the free slot holds NaN", batch.queries(2))


@concept(
    "Every place in sight is read, each of the output is written by one program, and nothing else is touched.",
    invariant="I5",
)
@cases(head_dim_3=(3, 3, 2), head_dim_5=(4, 5, 3), blocks_of_3=(3, 4, 2), round_numbers=(4, 4, 3), large=(40, 130, 39))
def test_places(lab, case):
    """Every slot of the last block is in sight, and the last head of the last row is the end of the query."""
    block_size, head_dim, last = case
    batch = Batch([([1], last, 1), ([2], last, 1)], block_size, 2, head_dim, seed=7)
    see = check(batch.draw)
    query = batch.queries(2)
    got = batch.attend(lab, query)
    see("what is touched out of place", batch.strays, equals=[])
    batch.expect(see, "attention over all places", got, batch.dense(query))
    for place, band in (("before", batch.memory[:BAND]), ("behind", batch.memory[-BAND:])):
        see(f"numbers written {place} the output", int((~band.isnan()).sum()), equals=0)


@concept("A cache may have more numbers than an int32 can count: a place in it takes 64 bits.", invariant="I5")
def test_a_large_cache(lab):
    """The interpreter shows the caches as the end of some with 2**33 numbers more, so block ids begin at 2**30."""
    batch = Batch([([1, 2], 4, 1)], seed=8)
    batch.far = FAR
    see = check(batch.draw)
    query = batch.queries(1)
    got = batch.attend(lab, query)
    see("what is touched out of place", batch.strays, equals=[])
    batch.expect(see, "attention over the last blocks of a large cache", got, batch.dense(query))


@concept("What is passed is read, not changed.", invariant="I5", illustrates=True)
def test_what_is_passed_stays(lab):
    batch = Batch([([1, 2], 4, 2)], seed=9)
    query = batch.queries(1)
    before = [each.tolist() for each in (query, *batch.caches)]
    see = check(batch.draw)
    batch.attend(lab, query, scale=0.5)
    for name, tensor, old in zip(("queries", "keys", "values"), (query, *batch.caches), before):
        is_old = tensor.tolist() == old
        see.true(f"the {name} are what they were before the launch", is_old, "the launch has changed them")


@concept("NaN in one KV head stays there: the query heads of other KV heads do not see it.", invariant="I3")
def test_nan_in_another_head(lab):
    batch = Batch([([1], 2, 1)], num_kv_heads=2, head_dim=3, seed=3)
    for cache in batch.caches:
        cache[:, :, 1] = math.nan
    query = batch.queries(4)
    see = check(batch.draw)
    got = batch.attend(lab, query)
    what = "attention of heads 0 and 1, which read KV head 0; KV head 1 holds NaN"
    batch.expect(see, what, got[:, :2], batch.dense(query)[:, :2])


@concept(
    "Query heads of a group are neighbours and share a KV head: head h reads h // GROUP_SIZE.",
    invariant="I3",
    illustrates=True,
)
@cases(groups_of_2=(4, 2), groups_of_3=(6, 2), one_group=(9, 1), groups_of_1=(3, 3), of_many=(260, 2), many=(130, 130))
def test_grouped_heads(lab, case):
    num_heads, num_kv_heads = case
    batch = Batch([([1], 2, 1)], num_kv_heads=num_kv_heads, seed=3)
    what = f"attention of {num_heads} query heads over {num_kv_heads} KV heads"
    batch.expect_dense(lab, what, batch.queries(num_heads))


@concept(
    "Only differences to the maximum go into exp, and a new maximum scales what was summed before.", invariant="I2"
)
@cases(
    rising=([-LARGE, 0.0, 0.0, 0.0, LARGE, LARGE], 4.5),
    falling=([LARGE, LARGE, 0.0, 0.0, -LARGE, -LARGE], 0.5),
    all_large=([LARGE] * 6, 2.5),
    all_small=([-LARGE] * 6, 2.5),
    apart=([0.0, 0.0, 0.0, 0.0, 8.0, 8.0], (6 + 9 * math.exp(8)) / (4 + 2 * math.exp(8))),
    beyond_float16=([7e4] * 3 + [8e4] * 3, 4.0),
    below_float16=([-8e4] * 3 + [-7e4] * 3, 4.0),
    thirty_thousand_below=([-3.1e4] * 6, 2.5),
    far_below=([-2e38] * 6, 2.5),
)
def test_large_scores(lab, case):
    """The last block has two slots that the row does not see, whose keys are 0."""
    scores, mean = case
    batch = Batch([([1, 2], 5, 1)], head_dim=1)
    batch.caches[0].flatten(0, 1)[4:10, 0, 0] = torch.tensor(scores)
    see = check(lambda: f"scores {scores}, values 0 1 2 3 4 5")
    got = batch.attend(lab, torch.ones(1, 1, 1, device=DEVICE), scale=1.0)
    batch.expect(see, "the weighted mean", got, torch.full((1, 1, 1), mean, dtype=torch.float64))


@concept(
    "16 bits are for storing: the arithmetic is float32, and the result is rounded once.",
    invariant="I2",
    illustrates=True,
)
@cases(float16=(torch.float16, 32, 2**-11), bfloat16=(torch.bfloat16, 4, 2**-7))
def test_half_precision(lab, case):
    """One rounding is at most 2**-11 of a number for float16. For bfloat16 it is 2**-8, and twice that where the
    interpreter cuts bits off instead of rounding. 1e-5 is float32's own error. The products are near 2048, or 256,
    where the dtype knows only even numbers."""
    dtype, factor, roundoff = case
    batch = Batch([([1, 2], 5, 1)], head_dim=4, seed=5, dtype=dtype)
    query = batch.queries(1)
    query[..., 0] = 64
    for keys in (batch.histories[0][0], batch.caches[0]):
        keys[..., 0] = factor
    batch.expect_dense(lab, f"attention in {dtype}", query, bound=roundoff + 1e-5)


@concept("Many small weights are a large one: no key in sight is too quiet to count.", invariant="I2")
@cases(ten_below=(10.0, 16), thirteen_below=(13.0, 16), sixty_below=(60.0, 256))
def test_many_quiet_keys(lab, case):
    """The first key has the largest score and the value 1, the others the value 3. Without them the mean is 1; keys
    that are 60 below weigh nothing, even together."""
    below, size = case
    num_quiet = 4 * size - 1
    batch = Batch([([1, 2, 3, 4], num_quiet, 1)], block_size=size, head_dim=1)
    for cache, first, others in ((batch.caches[0], 0.0, -below), (batch.caches[1], 1.0, 3.0)):
        cache[1:], cache[1, 0] = others, first
    weight = num_quiet * math.exp(-below)
    see = check(lambda: f"blocks of {size}; scores 0 and {num_quiet} times {-below}, values 1 and {num_quiet} times 3")
    got = batch.attend(lab, torch.ones(1, 1, 1, device=DEVICE), scale=1.0)
    mean = (1 + 3 * weight) / (1 + weight)
    batch.expect(see, "the weighted mean", got, torch.full((1, 1, 1), mean, dtype=torch.float64))


def draw_numbers(block_size, scale, query, keys, values):
    """A query and the first keys."""
    more = " ..." if len(keys) > 3 else ""
    return f"blocks of {block_size}, scale {scale}, query {query}\nkeys {keys[:3]}{more}\nvalues {values[:3]}{more}"


@concept(
    "Scores, weights and sums are float32: what nearly cancels shows when one of them was rounded to 16 bits.",
    invariant="I2",
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
    1 - 2**-13. sums_of_weights: beside 1, bfloat16 does not see exp(-5.75), five times. large_products: 131,072 is
    beyond float16. float32 is right to 6e-8 of 4096, which is 1e-3 of 0.25."""
    block_size, numbers, keys, values, scale, mean = case
    for dtype, roundoff in ((torch.bfloat16, 2**-7), (torch.float16, 2**-11)):
        table = list(range(1, 1 - (-len(keys) // block_size)))
        batch = Batch([(table, len(keys) - 1, 1)], block_size, 1, len(numbers), dtype=dtype)
        for cache, new in zip(batch.caches, (torch.tensor(keys), torch.tensor(values)[:, None])):
            cache[1:].flatten(0, 1)[: len(keys), 0] = new.to(DEVICE, dtype)
        query, _ = guarded(torch.tensor([[numbers]], dtype=dtype))
        see = check(draw_numbers, block_size, scale, numbers, keys, values)
        got = batch.attend(lab, query, scale)
        expected = torch.full(query.shape, mean, dtype=torch.float64)
        batch.expect(see, f"attention in {dtype}", got, expected, bound=roundoff + 1e-3)


@concept("Queries are parts of a wider matrix: the next row begins query_stride further on.", invariant="I5")
def test_query_stride(lab):
    batch = Batch([([1], 2, 1), ([1], 2, 1)], seed=6)
    batch.histories[0] = batch.histories[1]  # both requests share the block
    query = batch.queries(1)
    wide, _ = guarded(torch.full((2, 3, 2), math.nan))
    wide[:, 1:2] = query
    batch.expect_dense(lab, "attention of queries that lie 6 numbers apart", wide[:, 1:2])


@concept(
    "Rows may lie so far apart that an int32 does not count to them: 64 bits here, too.",
    invariant="I5",
    illustrates=True,
)
@cases(queries=(2**30, 2), tables=(2, 2**30))
def test_rows_that_lie_far_apart(lab, case):
    """The interpreter shows the rows so many numbers apart; on a GPU they are neighbours."""
    from mini_vllm.attention.triton_simple import attend_row_kernel

    batch = Batch([([1, 2], 4, 1), ([3, 4], 5, 1), ([5, 6], 6, 1)], seed=10)
    metadata, query = batch.metadata(lab), batch.queries(1)
    output = guarded(torch.full(query.shape, torch.nan))[0]
    request_of_row = guarded(torch.arange(3))[0]
    strides = case if DEVICE == "cpu" else (2, 2)
    tensors = {"query": query, "block_tables": metadata.block_tables}
    rows = {f"{name}[{t}]": each[t] for name, each in tensors.items() for t in range(3)}
    far = {f"{name}[{t}]": t * (n - 2) for name, n in zip(tensors, strides) for t in range(3)}
    others = {"output": output, "request_of_row": request_of_row, "key_cache": batch.caches[0]}
    others |= {"value_cache": batch.caches[1], "query_start_loc": metadata.query_start_loc}
    see = check(batch.draw)
    with watched(far, **rows, **others, seq_lens=metadata.seq_lens) as strays:
        attend_row_kernel[(3, 1)](
            output, query, *batch.caches, request_of_row, metadata.query_start_loc, metadata.seq_lens,
            metadata.block_tables, 0.5, 0, *strides, NUM_KV_HEADS=1, GROUP_SIZE=1, HEAD_DIM=2, BLOCK_SIZE=4,
            BLOCK_D=2, BLOCK_N=4,
        )  # fmt: skip
    see(f"what is touched out of place, query_stride and table_stride are {strides}", strays, equals=[])
    batch.expect(see, "attention of three rows", output, batch.dense(query, scale=0.5))


@concept("A launch may have millions of programs.", invariant="I1", illustrates=True)
def test_the_last_of_many_rows(lab):
    """The interpreter shows the rows of two requests as the last ones of a batch of many."""
    from mini_vllm.attention.triton_simple import attend_row_kernel

    first = 2**26 if DEVICE == "cpu" else 0
    batch = Batch([([1, 2], 4, 2), ([3, 4], 5, 1)], seed=11)
    metadata, query = batch.metadata(lab), batch.queries(1)
    output = guarded(torch.full(query.shape, torch.nan))[0]
    request_of_row = guarded(torch.tensor([0, 0, 1]))[0]
    query_start_loc = guarded(metadata.query_start_loc + first)[0]
    tables = {"query_start_loc": query_start_loc, "seq_lens": metadata.seq_lens, "block_tables": metadata.block_tables}
    caches = dict(zip(("key_cache", "value_cache"), batch.caches))
    far = {"output": 2 * first, "query": 2 * first, "request_of_row": first}
    see = check(batch.draw)
    with watched(far, first, output=output, query=query, request_of_row=request_of_row, **caches, **tables) as strays:
        attend_row_kernel[(3, 1)](
            output, query, *batch.caches, request_of_row, *tables.values(), 0.5, 0, 2, 2, NUM_KV_HEADS=1,
            GROUP_SIZE=1, HEAD_DIM=2, BLOCK_SIZE=4, BLOCK_D=2, BLOCK_N=4,
        )  # fmt: skip
    see(f"what is touched out of place, by programs {first:,} to {first + 2:,}", strays, equals=[])
    batch.expect(see, "attention of the last three rows", output, batch.dense(query, scale=0.5))


def any_batch(rng, size):
    """Requests, shapes, a scale and a window: at first one row of one head, in the end one row of a long sequence."""
    block_size, requests, first = rng.choice((1, 2, 3, 4)), [], 1
    for _ in range(1 + size // 3 if size < 5 else 1):
        num_columns = rng.randint(1, 1 + size) if size < 5 else 34
        length = rng.randint(block_size * (num_columns - 1) + 1, block_size * num_columns)
        num_tokens = rng.randint(1, min(length, 2)) if size < 5 else 1
        requests.append((rng.sample(range(first, first + num_columns), num_columns), length - num_tokens, num_tokens))
        first += num_columns
    num_kv_heads, group = ((1, 1), (1, 2), (2, 1))[rng.randrange(3) if 0 < size < 5 else 0]
    window = rng.choice((None, 1, rng.randint(2, 9), 40)) if size < 5 else None
    return requests, block_size, num_kv_heads, group, rng.randint(1, 5), rng.choice((0.3, 4.0)), window


@concept("Whatever the batch, attention is a softmax over all keys in sight.", invariant="I1", searches=True)
def test_any_batch(lab):
    def judge(lab, case):
        requests, block_size, num_kv_heads, group, head_dim, scale, window = case
        batch = Batch(requests, block_size, num_kv_heads, head_dim, math.nan, seed=len(requests))
        what = f"attention of {num_kv_heads * group} heads of {head_dim}, scale {scale}, sliding_window {window or 0}"
        query = batch.queries(num_kv_heads * group)
        see = batch.expect_dense(lab, what, query, scale=scale, sliding_window=window)
        see("what is touched out of place", batch.strays, equals=[])

    search(lab, any_batch, judge, 6)
