"""Lab 06.7: the learner's tests, on correct and on buggy versions."""

from labkit import cases, concept


@concept("A test states what must hold, not how it is done: a correct engine passes it.", invariant="I1")
@cases(**{f"correct_{number}": f"correct_{number}" for number in range(1, 11)})
def test_correct_versions_are_green(lab, case):
    lab.suite.must_be_green(case)


@concept("A block in the wrong place is read by a token: let each slot hold its text.", invariant="I2")
@cases(**{f"I2_{number}": f"I2_{number}" for number in range(1, 4)})
def test_wrong_tables_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("A hit has an end: try ends between two blocks, and groups that agree late.", invariant="I3")
@cases(**{f"I3_{number}": f"I3_{number}" for number in range(1, 4)})
def test_wrong_hits_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("A tier that is large hides its faults: make it small, and hold what is in it.", invariant="I4")
@cases(**{f"I4_{number}": f"I4_{number}" for number in range(1, 5)})
def test_wrong_places_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("Jobs end late, in any order, or badly, and clients go meanwhile.", invariant="I5")
@cases(**{f"I5_{number}": f"I5_{number}" for number in range(1, 7)})
def test_wrong_loads_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("Time passes: ask before an end and behind it, with a reader and without.", invariant="I6")
@cases(**{f"I6_{number}": f"I6_{number}" for number in range(1, 5)})
def test_wrong_leases_are_noticed(lab, case):
    lab.suite.must_be_red(case)
