"""Lab 07.5: sums whose bits are known, and kernels whose order depends on their rows."""

from random import Random

from labkit import cases, check, concept, far, raises, walk

TENTHS = [1.3, 1.5, 0.8, 1.1, 1.1, 0.1, 1.5, 1.2, 1.7, 0.6]
WIDE = [1e16, 1.0, 1.0, -1e16, 3.0, 1e8, 0.25, -1e8, 1e-9, 7.0, 1.0]


def in_splits(numbers, size):
    """The definition."""
    total = 0.0
    for start in range(0, len(numbers), size):
        split = 0.0
        for number in numbers[start : start + size]:
            split += number
        total += split
    return total


def run(lab, size, *chunks):
    made = lab.RunningSum(size)
    for chunk in chunks:
        made.extend(chunk)
    return made


def told(size, numbers):
    return lambda: f"splits of {size}, numbers {numbers[:12]}{' ...' if len(numbers) > 12 else ''}"


@concept("Each split is a sum of its own, and the sums of the splits are added up in their order.", invariant="I1")
@cases(
    tenths_by_4=(4, TENTHS), tenths_by_3=(3, TENTHS), wide_by_2=(2, WIDE), wide_by_4=(4, WIDE), whole=(99, WIDE),
    by_one=(1, WIDE), exactly_full=(5, TENTHS), nothing=(3, []), one=(3, [0.1]), minus_zero=(2, [-0.0]),
)  # fmt: skip
def test_splits(lab, case):
    size, numbers = case
    see = check(told(size, numbers))
    see("total()", repr(run(lab, size, numbers).total()), equals=repr(in_splits(numbers, size)))


@concept("The size of a split is fixed, and not the number of splits.", invariant="I1", illustrates=True)
@cases(tenths=TENTHS * 7, wide=WIDE * far(40, 90))
def test_many_splits(lab, case):
    see = check(told(8, case))
    see(f"total() of {len(case)} numbers", run(lab, 8, case).total(), equals=in_splits(case, 8))


@concept("A split goes on from one chunk to the next.", invariant="I2")
@cases(seven_and_three=(7, 4), five_and_five=(5, 4), three=(3, 4), one_by_one=(1, 4), two_in_five=(2, 5))
def test_chunks(lab, case):
    length, size = case
    for numbers in (TENTHS, WIDE):
        chunks = [numbers[i : i + length] for i in range(0, len(numbers), length)]
        see = check(told(size, numbers))
        total = run(lab, size, *chunks, []).total()
        see(f"total() in chunks of {length}", total, equals=in_splits(numbers, size))


@concept("To ask for the sum changes nothing.", invariant="I3", illustrates=True)
def test_asking(lab):
    see, made = check(told(4, TENTHS)), lab.RunningSum(4)
    for count, number in enumerate(TENTHS, start=1):
        made.extend([number])
        totals = [made.total() for _ in range(2)]
        see(f"total(), asked twice after {count} numbers", totals, equals=[in_splits(TENTHS[:count], 4)] * 2)


@concept("One sum knows nothing of another.", invariant="I3", illustrates=True)
def test_two_sums(lab):
    see, one, other = check(told(2, TENTHS)), lab.RunningSum(2), lab.RunningSum(4)
    for number in TENTHS:
        one.extend([number])
        other.extend([-number])
    see("total() of both", (one.total(), other.total()), (in_splits(TENTHS, 2), -in_splits(TENTHS, 4)))


@concept("What was summed is not summed again.", invariant="I3")
def test_many_numbers(lab):
    """A step brings a number, and each step asks for the sum."""
    made, wanted = lab.RunningSum(1), 0.0
    see = check(lambda: "30,000 numbers of 0.1 in splits of 1, and total() after each")
    for _ in range(30_000):
        made.extend([0.1])
        wanted += 0.1
        got = made.total()
        if got != wanted:
            see("total()", got, equals=wanted)
    see("total() after 30,000 numbers", made.total(), equals=wanted)


# --- kernels ----------------------------------------------------------------------------------------------------------


def backwards(row):
    return in_splits(row[::-1], 99)


class Kernel:
    """A sum of each row, forwards or backwards: by the number of rows and by the place of a row."""

    def __init__(self, is_backwards=lambda num_rows, place: False):
        self.is_backwards, self.calls = is_backwards, []

    def __call__(self, rows):
        self.calls.append([list(row) for row in rows])
        n = len(rows)
        return [backwards(row) if self.is_backwards(n, i) else in_splits(row, 99) for i, row in enumerate(rows)]


def make_rows(number, seed=0):
    """Rows of ten numbers whose sum has other bits backwards."""
    rng, rows = Random(seed), []
    while len(rows) < number:
        row = [rng.randint(1, 99) / 10 for _ in range(10)]
        rows += [row] if backwards(row) != in_splits(row, 99) else []
    return rows


ROWS = make_rows(11)
ONES = [1.0] * 10  # the same bits in every order


@concept("Zeros make the number of rows a multiple, and what comes of them is dropped.", invariant="I4")
@cases(one_of_4=(1, 4, 4), four_of_4=(4, 4, 4), five_of_4=(5, 4, 8), three_of_1=(3, 1, 3), six_of_5=(6, 5, 10))
def test_padded(lab, case):
    number, multiple, most = case
    kernel, rows = Kernel(), [list(row) for row in ROWS[:number]]
    see = check(lambda: f"{number} rows, a multiple of {multiple}")
    got = lab.padded(kernel, multiple, rows)
    see("how often the kernel is called", len(kernel.calls), equals=1)
    see("the number of its rows", len(kernel.calls[0]), equals=most)
    see("its first rows", kernel.calls[0][:number], equals=ROWS[:number])
    see("the rows behind them", kernel.calls[0][number:], equals=[[0.0] * 10] * (most - number))
    see("the number of the caller's rows", len(rows), equals=number)
    see("the rows of the caller", rows, equals=ROWS[:number])
    see("what is returned", got, equals=[in_splits(row, 99) for row in ROWS[:number]])


@concept("Without rows there is nothing to compute.", invariant="I4", illustrates=True)
def test_no_rows(lab):
    kernel, see = Kernel(), check(lambda: "no rows, a multiple of 4")
    see("what is returned", lab.padded(kernel, 4, []), equals=[])
    see("how often the kernel is called", len(kernel.calls), equals=0)


@concept("Trusted is the least multiple with which a row has the same bits among any rows.", invariant="I5")
@cases(
    always_the_same=(lambda n, i: False, 1),
    one_and_more=(lambda n, i: n == 1, 2),
    as_a_library=(lambda n, i: n < 4, 4),
    the_rest_of_8=(lambda n, i: i >= n - n % 8, 8),
    odd_numbers=(lambda n, i: n % 2 == 1, 2),
    up_to_10=(lambda n, i: n <= 10, 16),
    up_to_16=(lambda n, i: n <= 16, 32),
)
def test_multiple(lab, case):
    """Every second row has the same bits in every order."""
    is_backwards, expected = case
    rows = [ONES if place % 2 == 0 else row for place, row in enumerate(make_rows(18))]
    see = check(lambda: "a kernel for 18 rows of 10 numbers")
    see("multiple_of(kernel, rows)", lab.multiple_of(Kernel(is_backwards), rows), equals=expected)


@concept("Each row counts: some sums have the same bits in every order.", invariant="I5", illustrates=True)
@cases(first=0, fourth=3, last=10)
def test_one_row_that_differs(lab, case):
    rows = [ONES] * 11
    rows[case] = ROWS[case]
    see = check(lambda: f"ten rows of ones, and row {case} of other numbers; other bits in 1 to 3 rows")
    got = lab.multiple_of(Kernel(lambda n, i: n < 4), rows)
    see("multiple_of(kernel, rows)", got, equals=4)


@concept("The place of a row counts, too: the first rows and the last ones are tried.", invariant="I5")
@cases(by_the_front=lambda n, i: i == 0 and n > 32, by_the_end=lambda n, i: i == 35, odd=lambda n, i: i % 2 == 1)
def test_no_multiple(lab, case):
    see = check(lambda: "a kernel in which the place of a row decides, for 36 rows")
    with raises(ValueError, "a kernel that cannot be trusted"):
        got = lab.multiple_of(Kernel(case), make_rows(36, seed=1))
        see("multiple_of(kernel, rows)", got, equals="ValueError")


@concept("What holds for the first rows may not hold for the last ones.", invariant="I5", illustrates=True)
@cases(
    among_the_first=(0, range(5, 11), 16), among_the_last=(10, range(5, 11), 16), first_of_two=(0, [2], 4),
    last_of_two=(10, [2], 4), first_of_three=(0, [3], 2), last_of_three=(10, [3], 2),
)  # fmt: skip
def test_one_end(lab, case):
    """A row at one end of a batch of some sizes has other bits; of the 11 rows only that at this end shows it."""
    place, sizes, expected = case
    rows = [ONES] * 11
    rows[place] = ROWS[place]
    kernel = Kernel(lambda n, i: n in sizes and i == (n - 1 if place else 0))
    see = check(lambda: f"ten rows of ones, and row {place} of other numbers; other bits among {[*sizes]} rows")
    see("multiple_of(kernel, rows)", lab.multiple_of(kernel, rows), equals=expected)


def plan(rng):
    calls = [("split_size", rng.randint(1, 6))]
    for _ in range(rng.randint(2, 12)):
        calls.append(
            ("extend", [rng.choice((0.1, 1e16, -1e16, 3.3, 1e-9)) * rng.random() for _ in range(rng.randint(0, 9))])
        )
    return calls


def play(lab, calls):
    made, numbers = None, []
    for name, argument in calls:
        if name == "split_size":
            made, numbers = lab.RunningSum(argument), []
            continue
        made.extend(argument)
        numbers += argument
        yield "I2", "total()", made.total(), f"{len(numbers)} numbers so far"


@concept(
    "Whatever arrives in whatever chunks: the bits of the reference.", invariant="I2", illustrates=True, searches=True
)
def test_any_chunks(lab):
    walk(lab, plan, play)
