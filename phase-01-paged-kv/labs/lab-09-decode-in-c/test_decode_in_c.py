"""Lab 01.9: a decode kernel in C, called between pages of memory that may not be touched."""

from math import exp, nan
from random import Random

from labkit import LabFailure, attempt, cases, check, concept, far, search

NO_BLOCK = 2**30  # the id of a block that is not there


class Batch:
    """Sequences in blocks whose order is drawn, and one query for each. What belongs to no position is NaN.

    Keys are 0, so that all positions have the same weight, and values are drawn; with has_scores keys and queries are
    drawn, too.
    """

    def __init__(self, lab, seq_lens, block_size=4, heads=(1, 1), head_dim=4, has_scores=False, seed=0):
        rng = Random(seed)
        self.lab, self.seq_lens, self.block_size, self.head_dim = lab, seq_lens, block_size, head_dim
        self.num_heads, self.num_kv_heads = heads
        self.scale = 0.5

        def draw(*shape, zero=False):
            if not shape:
                return 0.0 if zero else float(rng.randint(-20, 20)) / 8
            return [draw(*shape[1:], zero=zero) for _ in range(shape[0])]

        self.queries = draw(len(seq_lens), self.num_heads, head_dim, zero=not has_scores)
        self.keys = [draw(length, self.num_kv_heads, head_dim, zero=not has_scores) for length in seq_lens]
        self.values = [draw(length, self.num_kv_heads, head_dim) for length in seq_lens]
        counts = [-(-length // block_size) for length in seq_lens]
        self.spare, *ids = rng.sample(range(sum(counts) + 1), sum(counts) + 1)
        self.tables = [[ids.pop() for _ in range(count)] for count in counts]
        self.columns = max(counts, default=0) + 1
        self.first_block = 0

    def call(self):
        """The output by sequence and head. A kernel that dies only of ids of no block has read columns behind."""
        try:
            return self.call_with(NO_BLOCK)
        except LabFailure as failure:
            is_wild = "wild address" in str(failure)
            if not is_wild or attempt(LabFailure, self.call_with, self.first_block + self.spare) == "LabFailure":
                raise
            what = f"columns of the block table's rows, {self.columns} in each, that are read"
            wanted = f"the first {' '.join(str(len(table)) for table in self.tables)}"
            raise LabFailure(what, wanted, "later ones, too, whose ids name no block", self.draw()) from failure

    def call_with(self, behind):
        """The same; behind: the id in the columns that are no sequence's."""
        num_blocks = sum(map(len, self.tables)) + 1
        size = self.block_size * self.head_dim
        caches = [[nan] * (num_blocks * self.num_kv_heads * size) for _ in "kv"]
        for rows, table in zip(zip(self.keys, self.values), self.tables):
            for cache, positions in zip(caches, rows):
                for position, of_heads in enumerate(positions):
                    block, offset = table[position // self.block_size], position % self.block_size
                    for head, numbers in enumerate(of_heads):
                        at = (block * self.num_kv_heads + head) * size + offset * self.head_dim
                        cache[at : at + self.head_dim] = numbers
        tables = [[self.first_block + block for block in table] for table in self.tables]
        flat = self.lab.decode(
            [number for heads in self.queries for numbers in heads for number in numbers],
            *caches,
            [block for table in tables for block in table + [behind] * (self.columns - len(table))],
            self.seq_lens,
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            head_dim=self.head_dim,
            block_size=self.block_size,
            scale=self.scale,
            first_block=self.first_block,
        )
        rows = [flat[i : i + self.head_dim] for i in range(0, len(flat), self.head_dim)]
        return [rows[i : i + self.num_heads] for i in range(0, len(rows), self.num_heads)]

    def wanted(self, seq, head):
        """The definition in float64: a softmax of all scores at once."""
        kv_head = head // (self.num_heads // self.num_kv_heads)
        query = self.queries[seq][head]
        scores = [self.scale * sum(a * b for a, b in zip(query, heads[kv_head])) for heads in self.keys[seq]]
        weights = [exp(score - max(scores)) for score in scores]
        columns = zip(*(heads[kv_head] for heads in self.values[seq]))
        return [sum(w * v for w, v in zip(weights, column)) / sum(weights) for column in columns] or [
            0.0
        ] * self.head_dim

    def expect(self):
        """Every sequence and head within 1e-5 of the largest value. float32 rounds each of some hundred operations by
        at most 6e-8 of it; a wrong weight or a missed key is far outside."""
        see = check(self.draw)
        output = self.call()
        see("sequences in the output", len(output), equals=len(self.seq_lens))
        largest = max((abs(x) for heads in self.values for rows in heads for row in rows for x in row), default=0.0)
        for seq, rows in enumerate(output):
            for head, got in enumerate(rows):
                wanted = self.wanted(seq, head)
                pairs = enumerate(zip(got, wanted, strict=True))
                first = next((i for i, (a, b) in pairs if not abs(a - b) <= 1e-5 * largest), None)
                if first is not None:
                    what = f"sequence {seq}, head {head}, from number {first} on"
                    see.fail(what, shown(wanted[first:]), shown(got[first:]))

    def draw(self):
        lines = [f"blocks of {self.block_size}, {self.num_heads} heads over {self.num_kv_heads} KV heads"]
        for seq, table in enumerate(self.tables[:4]):
            lines.append(f"sequence {seq}   {self.seq_lens[seq]} positions   blocks {table[:8]}")
        return "\n".join(lines)


def shown(numbers):
    """The first numbers of a row."""
    return " ".join(f"{number:.6g}" for number in numbers[:6]) + (" ..." if len(numbers) > 6 else "")


@concept("With one position the weight is 1, so the output is its value.", invariant="I1", illustrates=True)
def test_one_position(lab):
    Batch(lab, [1], has_scores=True).expect()


@concept("A step may have no decode: then there is nothing to write.", invariant="I6", illustrates=True)
def test_no_sequence(lab):
    Batch(lab, []).expect()


@concept(
    "A larger score shrinks all that was summed, the values and the weights, by exp(old maximum - new maximum).",
    invariant="I1",
    illustrates=True,
)
@cases(half=0.5, third=1 / 3, minus_two=-2.0, zero=0.0)
def test_scores(lab, case):
    batch = Batch(lab, [24], has_scores=True)
    batch.scale = case
    batch.expect()


@concept("exp(100) is more than float32 holds: scores are taken relative to the largest so far.", invariant="I2")
@cases(rising=1.0, falling=-1.0)
def test_large_scores(lab, case):
    batch = Batch(lab, [8], head_dim=1)
    batch.queries = [[[100.0]]]
    batch.keys = [[[[case * (200.0 * position - 800.0)]] for position in range(8)]]
    batch.expect()


@concept("Each head of each sequence has a largest score of its own.", invariant="I2", illustrates=True)
@cases(
    of_heads=([4], (2, 1), [[[100.0], [-100.0]]]),
    of_heads_backwards=([4], (2, 2), [[[-100.0], [100.0]]]),
    of_sequences=([4, 4], (1, 1), [[[100.0]], [[-100.0]]]),
    of_sequences_backwards=([4, 4], (1, 1), [[[-100.0]], [[100.0]]]),
)
def test_scores_of_heads(lab, case):
    """Scores of one head are near 10,000, those of the other one near -10,000."""
    seq_lens, heads, queries = case
    batch = Batch(lab, seq_lens, heads=heads, head_dim=1)
    batch.scale, batch.queries = 1.0, queries
    batch.keys = [[[[100.0 + position / 128]] * heads[1] for position in range(length)] for length in seq_lens]
    batch.expect()


@concept(
    "A score is any number of float32: none is so large, or so small, that it stands for another.",
    invariant="I1",
    illustrates=True,
)
@cases(beyond_float16=7e4, thirty_thousand_below=-3.1e4, far_below=-2e38, far_above=2e38)
def test_scores_of_any_size(lab, case):
    """Three positions have this score, and three one that is a quarter larger, or smaller."""
    batch = Batch(lab, [6], head_dim=1)
    batch.scale, batch.queries = 1.0, [[[1.0]]]
    batch.keys = [[[[case]] if position < 3 else [[1.25 * case]] for position in range(6)]]
    batch.expect()


@concept(
    "Many small weights are a large one: no position is too quiet to count.",
    invariant="I1",
    illustrates=True,
)
@cases(ten_below=(10.0, 60), fourteen_below=(14.0, 600))
def test_many_quiet_positions(lab, case):
    """The first position has the largest score and the value 1; the others have the value 3."""
    below, num_quiet = case
    batch = Batch(lab, [1 + num_quiet], head_dim=1)
    batch.scale, batch.queries = 1.0, [[[1.0]]]
    batch.keys = [[[[0.0]], *[[[-below]]] * num_quiet]]
    batch.values = [[[[1.0]], *[[[3.0]]] * num_quiet]]
    batch.expect()


@concept("In a block the positions of a head lie side by side, and then come those of the next head.", invariant="I3")
@cases(of_1=1, of_3=3, of_4=4, of_16=16)
def test_blocks(lab, case):
    Batch(lab, [48], block_size=case, heads=(2, 2)).expect()


@concept("Neighbouring query heads share a KV head.", invariant="I4")
@cases(three_each=(6, 2), one_each=(3, 3), all_of_one=(4, 1))
def test_groups(lab, case):
    Batch(lab, [5], block_size=1, heads=case).expect()


@concept(
    "The last block is full by chance only: what lies behind the last position is not read.",
    invariant="I5",
    illustrates=True,
)
@cases(one=1, middle=6, last_but_one=7)
def test_last_block(lab, case):
    Batch(lab, [case]).expect()


@concept("What belongs to no position is not read, even if the number is never used.", invariant="I5")
@cases(
    rest_of_a_block=([5], 7, 1, 3, 15),
    whole_blocks=([8], 4, 1, 3, 24),
    one_number=([1], 3, 1, 1, 1),
    rest_of_a_head=([2], 3, 2, 2, 10),
    nothing=([0], 4, 2, 8, 0),
    second_sequence=([4, 2], 4, 1, 2, 12),
)
def test_nothing_beside(lab, case):
    """The caches end with the last number that is needed, and the table with its last block."""
    lengths, block_size, num_kv_heads, head_dim, num_numbers = case
    see = check(
        lambda: (
            f"caches of {num_numbers} numbers, seq_lens {lengths}, blocks of {block_size}, {num_kv_heads} KV heads "
            f"of {head_dim} numbers; all keys are 0, and all values 2"
        )
    )
    output = lab.decode(
        [0.0] * (len(lengths) * num_kv_heads * head_dim),
        [0.0] * num_numbers,
        [2.0] * num_numbers,
        [*range(sum(-(-length // block_size) for length in lengths))],
        lengths,
        num_heads=num_kv_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        block_size=block_size,
        scale=1.0,
    )
    see("the mean of the values", sorted(set(output)), equals=[2.0] if num_numbers else [0.0])


@concept("A row of the table has max_blocks columns, whatever the length of its sequence.", invariant="I3")
def test_several_sequences(lab):
    Batch(lab, [8, 16, 4]).expect()


@concept("A sequence without positions, as padding has, gets zeros: 0 / 0 is NaN.", invariant="I6", illustrates=True)
def test_empty_sequence(lab):
    Batch(lab, [0]).expect()


@concept(
    "An address is a count of numbers, and needs 64 bits: block 67,108,864 of 32 numbers is beyond 2**31.",
    invariant="I5",
)
@cases(number_beyond_31_bits=(8, 2**31 // 32), slot_beyond_31_bits=(1, 2**31 // 4), slot_beyond_32_bits=(2, 2**31 - 8))
def test_far_block(lab, case):
    head_dim, first_block = case
    batch = Batch(lab, [8], head_dim=head_dim)
    batch.first_block = first_block
    batch.expect()


@concept(
    "The online softmax needs no room for the scores: a sequence may have more positions than there is memory for.",
    invariant="I7",
)
def test_long_sequence(lab):
    length = 1_100_000
    see = check(
        lambda: f"one sequence of {length:,} positions in one block; all keys are 0, half of the values 1, then 4"
    )
    output = lab.decode(
        [0.0],
        [0.0] * length,
        [1.0] * (length // 2) + [4.0] * (length // 2),
        [0],
        [length],
        num_heads=1,
        num_kv_heads=1,
        head_dim=1,
        block_size=length,
        scale=1.0,
    )
    most = 4e-5 / 4096 * length
    see.between("the mean of as many values of 1 as of 4", output[0], 2.5 - most, 2.5 + most)


@concept("Nothing has a natural size: no head, no block, no batch.", invariant="I9", illustrates=True)
@cases(
    head_of_256=([3], 2, (1, 1), 256),
    head_of_1030=([3], 2, (2, 1), 1030),
    head_of_many=([2], 2, (1, 1), far(20_000, 40_000)),
    many_heads=([2], 2, (1200, 600), 3),
    all_of_one_head=([2], 2, (140, 1), 3),
    long_blocks=([1, 700, 0, 1300], 700, (1, 1), 2),
    many_sequences=([i % 5 for i in range(600)], 2, (1, 1), 2),
    many_columns=([1300, 1, 1299], 1, (1, 1), 2),
)
def test_sizes(lab, case):
    seq_lens, block_size, heads, head_dim = case
    Batch(lab, seq_lens, block_size=block_size, heads=heads, head_dim=head_dim, has_scores=True).expect()


@concept("Neither a sequence nor a block is counted in 16 bits.", invariant="I9", illustrates=True)
def test_many_sequences(lab):
    """All of them share a block of two positions, of which every second one has the first alone."""
    number = far(35_000, 100_000)
    see = check(lambda: f"{2 * number:,} sequences of 1 and 2 positions in turn, of the values 1 and 5; all keys are 0")
    lengths, tables = [1, 2] * number, [0] * (2 * number)
    sizes = {"num_heads": 1, "num_kv_heads": 1, "head_dim": 1, "block_size": 2, "scale": 1.0}
    output = lab.decode([0.0] * (2 * number), [0.0] * 2, [1.0, 5.0], tables, lengths, **sizes)
    wrong = [seq for seq, got in enumerate(output) if not abs(got - (1.0, 3.0)[seq % 2]) <= 5e-5]
    see("sequences whose mean is not 1, or 3", wrong[:9], equals=[])


@concept("A sequence may have any number of blocks.", invariant="I9", illustrates=True)
def test_many_blocks(lab):
    length = far(70_000, 140_000)
    see = check(lambda: f"one sequence in {length:,} blocks of one position; its last 1,000 values are {length / 1000}")
    values = [length / 1000] * 1000 + [0.0] * (length - 1000)
    sizes = {"num_heads": 1, "num_kv_heads": 1, "head_dim": 1, "block_size": 1, "scale": 1.0}
    (mean,) = lab.decode([0.0], [0.0] * length, values, [*reversed(range(length))], [length], **sizes)
    most = 1e-5 * length / 1000 * length / 4096
    see.between("the mean of the values", mean, 1 - most, 1 + most)


@concept("A head has as many numbers as it has: no vector's width.", invariant="I5", illustrates=True)
@cases(of_1=1, of_5=5, of_80=80)
def test_head_sizes(lab, case):
    Batch(lab, [12], head_dim=case, has_scores=True).expect()


def any_batch(rng, size):
    """At first one sequence of one head, later several of several."""
    num_kv_heads = rng.randint(1, 1 + size // 4)
    return (
        [rng.randint(0, 3 + 4 * size) for _ in range(rng.randint(1, 1 + size // 3))],
        rng.choice((1, 2, 3, 4, 8, 16)),
        (num_kv_heads * rng.randint(1, 3), num_kv_heads),
        rng.choice((1, 2, 7, 16)),
        True,
        size,
    )


@concept(
    "Whatever the batch: each head of each sequence gets its own weighted mean.",
    invariant="I1",
    illustrates=True,
    searches=True,
)
def test_any_batch(lab):
    search(lab, any_batch, lambda lab, case: Batch(lab, *case).expect(), 12)
