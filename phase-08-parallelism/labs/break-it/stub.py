"""Lab 08.7: Break it: tests for parallelism (60 minutes). You write the tests.

What must hold is in contract.md. Each test is a function test_...(lab); lab has the engine's names. It is run on
correct engines, where it must be green, and on buggy ones, where at least one of your tests must be red. The first test
is an example, and yours to change.
"""

from random import Random

from labkit import check, todo


def make_layer(lab, num_rows, num_columns, seed=0):
    """A layer of small integers, with a bias: its sums are exact in every order."""
    rng = Random(100 * num_rows + num_columns + seed)
    weight = [[rng.randint(-9, 9) for _ in range(num_columns)] for _ in range(num_rows)]
    return lab.Linear(weight, None, [rng.randint(-9, 9) for _ in range(num_rows)])


def test_columns_of_two_ranks(lab):
    """The outputs of the ranks, one behind the other, are those of the layer."""
    layer, x, see = make_layer(lab, 4, 3), [1, -2, 3], check()
    together = [y for rank in range(2) for y in lab.apply(lab.column_shard(layer, rank, 2), x)]
    see("outputs", together, equals=lab.apply(layer, x))


def test_what_you_break_first(lab):
    """Yours: rename it, and write more of them."""
    todo("08.7")
