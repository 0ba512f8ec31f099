"""Lab 06.8: the learner's findings about three records, and the tests, on correct and on buggy versions."""

from labkit import cases, concept


@concept("A test for a bug is green where the bug is not, however the tier is written.", invariant="I1")
@cases(**{f"correct_{number}": f"correct_{number}" for number in range(1, 9)})
def test_correct_versions_are_green(lab, case):
    lab.suite.must_be_green(case)


@concept("A wrong load is an earlier mistake: ask of each block who holds it, step by step.", invariant="I2")
@cases(a="a", b="b", c="c")
def test_the_culprit_is_named(lab, case):
    lab.suite.must_name(case)


@concept("Copies have an order: let a store and a load of one step want the same block.", invariant="I3")
@cases(**{f"I3_{number}": f"I3_{number}" for number in range(1, 6)})
def test_wrong_loads_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("What is held is given back by somebody: let reads fail and clients go, and count at the end.", invariant="I4")
@cases(**{f"I4_{number}": f"I4_{number}" for number in range(1, 4)})
def test_lost_blocks_and_long_waits_are_noticed(lab, case):
    lab.suite.must_be_red(case)
