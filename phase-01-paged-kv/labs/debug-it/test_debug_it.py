"""Lab 01.8: the learner's findings about two wrong texts, and the tests, on correct and on buggy versions."""

from labkit import cases, concept


@concept("A test for a bug is green where the bug is not, however the engine is written.", invariant="I1")
@cases(**{f"correct_{number}": f"correct_{number}" for number in range(1, 9)})
def test_correct_versions_are_green(lab, case):
    lab.suite.must_be_green(case)


@concept("The first wrong letter is not the first mistake: go back to the number that cannot be.", invariant="I2")
@cases(a="a", b="b")
def test_the_culprit_is_named(lab, case):
    lab.suite.must_name(case)


@concept("A slot shows its faults behind the first block, and in company: go there with every test.", invariant="I3")
@cases(**{f"I3_{number}": f"I3_{number}" for number in range(1, 5)})
def test_wrong_slots_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("Pieces of a softmax are right by themselves: let the largest score lie in each of them.", invariant="I4")
@cases(**{f"I4_{number}": f"I4_{number}" for number in range(1, 5)})
def test_wrong_weights_are_noticed(lab, case):
    lab.suite.must_be_red(case)
