"""Lab 01.7: the learner's tests, on correct and on buggy versions."""

from labkit import cases, concept


@concept("A test states what must hold, not how it is done: a correct engine passes it.", invariant="I1")
@cases(**{f"correct_{number}": f"correct_{number}" for number in range(1, 7)})
def test_correct_versions_are_green(lab, case):
    lab.suite.must_be_green(case)


@concept("A slot follows from table, position and block size alone, however odd or large they are.", invariant="I2")
@cases(**{f"I2_{number}": f"I2_{number}" for number in range(1, 4)})
def test_wrong_slots_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("A write has two sides: what it puts where it belongs, and all that it must leave alone.", invariant="I3")
@cases(**{f"I3_{number}": f"I3_{number}" for number in range(1, 4)})
def test_wrong_writes_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("Attention has a definition that knows no blocks; what the blocks give is held against it.", invariant="I4")
@cases(**{f"I4_{number}": f"I4_{number}" for number in range(1, 5)})
def test_wrong_means_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("A read beyond the sight is noticed only if the value that lies there does harm.", invariant="I5")
@cases(**{f"I5_{number}": f"I5_{number}" for number in range(1, 4)})
def test_strangers_influence_is_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("Many ways to compute a softmax agree on small scores; the large ones tell them apart.", invariant="I6")
@cases(**{f"I6_{number}": f"I6_{number}" for number in range(1, 4)})
def test_large_scores_are_tried(lab, case):
    lab.suite.must_be_red(case)
