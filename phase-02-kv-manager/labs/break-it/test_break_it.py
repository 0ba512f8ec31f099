"""Lab 02.5: the learner's tests, on correct and on buggy versions."""

from labkit import cases, concept


@concept("A test states what must hold, not how it is done: a correct engine passes it.", invariant="I1")
@cases(**{f"correct_{number}": f"correct_{number}" for number in range(1, 12)})
def test_correct_versions_are_green(lab, case):
    lab.suite.must_be_green(case)


@concept("Count all blocks after every step: one that is lost, or is in two places, shows up at once.", invariant="I2")
@cases(**{f"I2_{number}": f"I2_{number}" for number in range(1, 4)})
def test_lost_blocks_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("Room is a matter of rounding: try sizes and lengths that do not divide each other.", invariant="I3")
@cases(**{f"I3_{number}": f"I3_{number}" for number in range(1, 3)})
def test_wrong_tables_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("Work out the price yourself, and compare all that you can see before and after a refusal.", invariant="I4")
@cases(**{f"I4_{number}": f"I4_{number}" for number in range(1, 5)})
def test_wrong_answers_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("A hit that is false gives wrong answers: write down whose content a block has, and compare.", invariant="I5")
@cases(**{f"I5_{number}": f"I5_{number}" for number in range(1, 5)})
def test_false_hits_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("A hit that is too short only costs time, so it goes unnoticed unless a test asks for it.", invariant="I6")
@cases(**{f"I6_{number}": f"I6_{number}" for number in range(1, 4)})
def test_lost_hits_are_noticed(lab, case):
    lab.suite.must_be_red(case)
