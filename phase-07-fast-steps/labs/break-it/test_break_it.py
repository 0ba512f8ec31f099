"""Lab 07.7: the learner's tests, on correct and on buggy versions."""

from labkit import cases, concept


@concept("A test states what must hold, not how it is done: a correct engine passes it.", invariant="I1")
@cases(**{f"correct_{number}": f"correct_{number}" for number in range(1, 9)})
def test_correct_versions_are_green(lab, case):
    lab.suite.must_be_green(case)


@concept("A count is wrong for a step or two: ask after each call, with chunks, and in a pool that is tight.",
         invariant="I2")  # fmt: skip
@cases(**{f"I2_{number}": f"I2_{number}" for number in range(1, 5)})
def test_wrong_counts_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("An end is foreseen or not, and a step may be in flight in both cases.", invariant="I3")
@cases(**{f"I3_{number}": f"I3_{number}" for number in range(1, 4)})
def test_wrong_ends_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("Steps of every size follow each other: read the whole of each buffer.", invariant="I4")
@cases(**{f"I4_{number}": f"I4_{number}" for number in range(1, 4)})
def test_wrong_replays_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("A graph holds the step, or there is none: try a step at each edge.", invariant="I5")
@cases(**{f"I5_{number}": f"I5_{number}" for number in range(1, 4)})
def test_wrong_choices_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("What is not written again must be right from before: compare with a batch that is written whole.",
         invariant="I6")  # fmt: skip
@cases(**{f"I6_{number}": f"I6_{number}" for number in range(1, 4)})
def test_wrong_rows_are_noticed(lab, case):
    lab.suite.must_be_red(case)
