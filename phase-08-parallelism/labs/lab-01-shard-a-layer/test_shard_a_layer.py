"""Lab 08.1: what each rank has of a layer, and what the ranks compute together."""

from collections.abc import Sequence
from random import Random

from labkit import cases, check, concept, far, raises, walk


def make(lab, num_rows, num_columns, *, bias=True, scale=False, seed=0):
    """A layer of small integers, so that sums are exact in every order; scales are powers of two."""
    rng = Random(100 * num_rows + num_columns + seed)
    weight = [[rng.randint(-9, 9) for _ in range(num_columns)] for _ in range(num_rows)]
    scales = [2.0 ** rng.randint(-3, 3) for _ in range(num_rows)] if scale else None
    return lab.Linear(weight, scales, [rng.randint(-99, 99) for _ in range(num_rows)] if bias else None)


def fractions(lab, num_rows, num_columns, *, bias=True):
    """A layer whose rows have very different largest numbers, at a place that moves."""
    rng = Random(num_rows + 7 * num_columns)
    weight = [[rng.uniform(-1, 1) for _ in range(num_columns)] for _ in range(num_rows)]
    for number, row in enumerate(weight):
        row[number % num_columns] = 3.0 * (number + 1)
    return lab.Linear(weight, None, [float(n) for n in range(num_rows)] if bias else None)


def told(kind, layer, size):
    rows, columns = len(layer.weight), len(layer.weight[0])
    return lambda: f"{kind} of {rows} rows and {columns} columns among {size} ranks"


def plain(layer):
    """A layer as lists."""
    weight = [list(row) for row in layer.weight]
    return weight, *(None if part is None else list(part) for part in (layer.scale, layer.bias))


def add(terms):
    return [sum(numbers) for numbers in zip(*terms, strict=True)]


SIZES = {"one_rank": (6, 5, 1), "two_ranks": (4, 6, 2), "three_ranks": (9, 6, 3), "a_row_each": (4, 8, 4)}


@concept("A rank has its rows of the weight, and with each row its bias.", invariant="I1", illustrates=True)
@cases(**SIZES)
def test_columns(lab, case):
    rows, columns, size = case
    layer = make(lab, rows, columns)
    see = check(told("a layer", layer, size))
    share = rows // size
    for rank in range(size):
        weight, scale, bias = plain(lab.column_shard(layer, rank, size))
        see(f"weight of rank {rank}", weight, equals=list(layer.weight)[rank * share : (rank + 1) * share])
        see(f"bias of rank {rank}", bias, equals=layer.bias[rank * share : (rank + 1) * share])
        see(f"scale of rank {rank}", scale, equals=None)


@concept("A layer without bias or scale has none on any rank, and a scale goes with its row.", invariant="I1")
@cases(no_bias=(False, False), scale=(True, True), scale_alone=(False, True))
def test_scales_of_columns(lab, case):
    bias, scale = case
    layer = make(lab, 6, 3, bias=bias, scale=scale)
    see = check(told("a layer", layer, 3))
    for rank in range(3):
        own = slice(2 * rank, 2 * rank + 2)
        found = plain(lab.column_shard(layer, rank, 3))
        see(f"scale of rank {rank}", found[1], equals=layer.scale[own] if scale else None)
        see(f"bias of rank {rank}", found[2], equals=layer.bias[own] if bias else None)
        twice = plain(lab.merged_shard([layer, layer], rank, 3))
        see(f"scale of rank {rank}, merged with itself", twice[1], equals=2 * layer.scale[own] if scale else None)


@concept("Of several layers a rank has its part of each, and not its part of the stack.", invariant="I2")
@cases(two=(4, 4), three_of_other_sizes=(8, 4, 2), one=(6,), no_bias=(4, 2, None))
def test_merged(lab, case):
    sizes = [rows for rows in case if rows]
    layers = [make(lab, rows, 3, seed=place, bias=None not in case) for place, rows in enumerate(sizes)]
    see = check(lambda: f"layers of {sizes} rows and 3 columns among 2 ranks")
    for rank in range(2):
        parts = [slice(rank * rows // 2, (rank + 1) * rows // 2) for rows in sizes]
        pairs = list(zip(layers, parts, strict=True))
        found = plain(lab.merged_shard(layers, rank, 2))
        see(f"weight of rank {rank}", found[0], equals=[row for layer, own in pairs for row in layer.weight[own]])
        added = [number for layer, own in pairs for number in layer.bias[own]] if layers[0].bias else None
        see(f"bias of rank {rank}", found[2], equals=added)


@concept("A rank has its columns of every row, and the scales of all rows.", invariant="I3")
@cases(one_rank=(5, 6, 1), two_ranks=(6, 4, 2), three_ranks=(2, 9, 3), a_column_each=(3, 4, 4))
def test_rows(lab, case):
    rows, columns, size = case
    layer = make(lab, rows, columns, scale=True)
    see = check(told("a layer", layer, size))
    share = columns // size
    for rank in range(size):
        weight, scale, _ = plain(lab.row_shard(layer, rank, size))
        own = slice(rank * share, (rank + 1) * share)
        see(f"weight of rank {rank}", weight, equals=[row[own] for row in layer.weight])
        see(f"scale of rank {rank}", scale, equals=layer.scale)


@concept("In a sum over all ranks the bias counts once.", invariant="I4")
@cases(alone=1, two=2, four=4)
def test_bias_of_rows(lab, case):
    layer = make(lab, 3, 4)
    see = check(told("a layer with a bias", layer, case))
    found = [plain(lab.row_shard(layer, rank, case))[2] for rank in range(case)]
    see("the bias of each rank", found, equals=[layer.bias, *[None] * (case - 1)])


@concept(
    "A layer cut by rows, and then one cut by columns: one sum gives the output.", invariant="I3", illustrates=True
)
@cases(two=(2, 8), three=(3, 9), four=(4, 8), many=(far(16), 96))
def test_two_layers(lab, case):
    size, inner = case
    inner = size * max(1, inner // size)
    up, down = make(lab, inner, 5), make(lab, 4, inner)
    see = check(lambda: f"5 inputs, {inner} channels between, 4 outputs, {size} ranks")
    x = [3, -1, 4, 1, -5]
    expected = lab.apply(down, [max(0, number) for number in lab.apply(up, x)])
    terms = []
    for rank in range(size):
        own = lab.apply(lab.column_shard(up, rank, size), x)
        terms.append(lab.apply(lab.row_shard(down, rank, size), [max(0, number) for number in own]))
    see("the sum of the ranks' outputs", add(terms), equals=expected)


@concept("A row has one scale on all ranks: that of the whole row.", invariant="I5")
@cases(two=2, three=3)
def test_int8_of_rows(lab, case):
    layer = fractions(lab, 4, 6, bias=False)
    whole = lab.quantized(layer)
    see = check(told("a layer in eight bits", layer, case))
    for rank in range(case):
        weight, scale, _ = plain(lab.row_shard(layer, rank, case, int8=True))
        own = slice(rank * 6 // case, (rank + 1) * 6 // case)
        see(f"scale of rank {rank}", scale, equals=list(whole.scale))
        see(f"integers of rank {rank}", weight, equals=[list(row[own]) for row in whole.weight])


@concept("Rows that a rank has whole are quantized by themselves.", invariant="I5", illustrates=True)
@cases(column="column", merged="merged")
def test_int8_of_columns(lab, case):
    layers = [fractions(lab, 6, 4), fractions(lab, 4, 4)] if case == "merged" else [fractions(lab, 6, 4)]
    see = check(lambda: f"{case}_shard with int8, layers of {[len(layer.weight) for layer in layers]} rows, 2 ranks")
    for rank in range(2):
        if case == "merged":
            found = plain(lab.merged_shard(layers, rank, 2, int8=True))
        else:
            found = plain(lab.column_shard(layers[0], rank, 2, int8=True))
        rows, steps = [], []
        for layer in layers:
            whole, share = lab.quantized(layer), len(layer.weight) // 2
            rows += [list(row) for row in whole.weight[rank * share : (rank + 1) * share]]
            steps += whole.scale[rank * share : (rank + 1) * share]
        see(f"integers of rank {rank}", found[0], equals=rows)
        see(f"scale of rank {rank}", found[1], equals=steps)


@concept("Integers that have a scale are not quantized again.", invariant="I5", illustrates=True)
@cases(column="column_shard", row="row_shard")
def test_int8_already(lab, case):
    layer = make(lab, 4, 4, scale=True)
    see = check(told("a layer with scales", layer, 2))
    for rank in range(2):
        found = getattr(lab, case)(layer, rank, 2, int8=True)
        without = getattr(lab, case)(layer, rank, 2)
        own = slice(2 * rank, 2 * rank + 2)
        expected = layer.weight[own] if case == "column_shard" else [row[own] for row in layer.weight]
        see(f"integers of rank {rank}", plain(found)[0], equals=expected)
        see(f"the same with and without int8, rank {rank}", plain(found), equals=plain(without))


@concept("What cannot be shared out evenly is refused, and so is a rank that is none.", invariant="I6")
@cases(
    rows=("column_shard", 5, 4, 0, 2), columns=("row_shard", 4, 5, 0, 2), rank_behind=("column_shard", 4, 4, 2, 2),
    rank_of_columns=("row_shard", 4, 4, 4, 4), rank_before=("row_shard", 4, 4, -1, 2),
    more_ranks=("row_shard", 4, 2, 0, 4), merged=("merged_shard", 3, 2, 0, 2), empty=("column_shard", 0, 4, 5, 2),
)  # fmt: skip
def test_refused(lab, case):
    name, rows, columns, rank, size = case
    layer = make(lab, rows, columns)
    what = f"{name} of {rows} rows and {columns} columns, rank {rank} of {size}"
    with raises(lab.InvalidParameterError, what):
        getattr(lab, name)([make(lab, 4, 2), layer] if name == "merged_shard" else layer, rank, size)


@concept("A layer that was cut is as it was.", invariant="I6", illustrates=True)
def test_unchanged(lab):
    layer = fractions(lab, 4, 4)
    before = plain(layer)
    see = check(told("a layer", layer, 2))
    for int8 in (False, True):
        for rank in range(2):
            lab.column_shard(layer, rank, 2, int8=int8)
            lab.row_shard(layer, rank, 2, int8=int8)
            lab.merged_shard([layer, layer], rank, 2, int8=int8)
    see("weight, scale and bias", plain(layer), equals=before)


class OnDisk(Sequence):
    """A sequence in a file, which notes the places that are read."""

    def __init__(self, inside):
        self.inside, self.places = inside, set()

    def __len__(self):
        return len(self.inside)

    def __getitem__(self, place):
        whole = range(len(self.inside))
        self.places.update(whole[place] if isinstance(place, slice) else [whole[place]])
        return self.inside[place]


@concept("A rank reads the rows that it keeps.", invariant="I7")
@cases(column=("column_shard", False), int8=("column_shard", True), merged=("merged_shard", False),
       merged_int8=("merged_shard", True))  # fmt: skip
def test_rows_that_are_read(lab, case):
    name, int8 = case
    layer = fractions(lab, 12, 3)
    see = check(told("a layer on disk", layer, 4))
    for rank in range(4):
        stored, small = OnDisk(layer.weight), OnDisk(layer.weight[:4])
        one, other = lab.Linear(stored, None, layer.bias), lab.Linear(small, None, layer.bias[:4])
        getattr(lab, name)([one, other] if name == "merged_shard" else one, rank, 4, int8=int8)
        see(f"rows that rank {rank} reads", sorted(stored.places), equals=list(range(3 * rank, 3 * rank + 3)))
        if name == "merged_shard":
            see(f"rows of the second layer that rank {rank} reads", sorted(small.places), equals=[rank])


@concept("A rank reads the columns that it keeps.", invariant="I7")
@cases(as_it_is=(False, False), scales=(True, False), int8_already=(True, True))
def test_columns_that_are_read(lab, case):
    scale, int8 = case
    layer = make(lab, 3, 12, scale=scale)
    see = check(told("a layer on disk", layer, 4))
    for rank in range(4):
        stored = [OnDisk(row) for row in layer.weight]
        lab.row_shard(lab.Linear(stored, layer.scale, layer.bias), rank, 4, int8=int8)
        read = sorted(set().union(*(row.places for row in stored)))
        see(f"columns that rank {rank} reads", read, equals=list(range(3 * rank, 3 * rank + 3)))


def plan(rng):
    size = rng.randint(1, 4)
    calls = [("ranks", size)]
    for _ in range(rng.randint(1, 5)):
        name = rng.choice(("column_shard", "row_shard", "merged_shard"))
        shape = [size * rng.randint(1, 3), size * rng.randint(1, 3)]
        calls.append((name, *shape, rng.randrange(size), rng.random() < 0.5, rng.random() < 0.5, rng.randint(1, 3)))
    return calls


def play(lab, calls):
    size = 1
    for name, *arguments in calls:
        if name == "ranks":
            (size,) = arguments
            continue
        rows, columns, rank, int8, bias, number = arguments
        layer = fractions(lab, rows, columns, bias=bias)
        given = [layer] * number if name == "merged_shard" else layer
        found = plain(getattr(lab, name)(given, rank, size, int8=int8))
        yield "I3" if name == "row_shard" else "I2", f"{name}, rank {rank} of {size}", found


@concept("Whatever is cut: the parts of the reference.", invariant="I3", illustrates=True, searches=True)
def test_any_layers(lab):
    walk(lab, plan, play)
