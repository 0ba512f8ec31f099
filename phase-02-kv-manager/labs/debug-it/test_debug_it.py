"""Lab 02.6: the learner's findings about two traces, and the tests, on correct and on buggy versions."""

from labkit import cases, concept


@concept("A test for a bug is green where the bug is not, however the engine is written.", invariant="I1")
@cases(**{f"correct_{number}": f"correct_{number}" for number in range(1, 10)})
def test_correct_versions_are_green(lab, case):
    lab.suite.must_be_green(case)


@concept("The symptom is late and elsewhere: go back to the first record that cannot be.", invariant="I2")
@cases(a="a", b="b")
def test_the_culprit_is_named(lab, case):
    lab.suite.must_name(case)


@concept("What was overwritten must not be found: take a block, and ask for what was in it.", invariant="I3")
@cases(**{f"I3_{number}": f"I3_{number}" for number in range(1, 5)})
def test_stale_contents_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("A count of holders is right only if all of them are counted: let three share, and leave.", invariant="I4")
@cases(**{f"I4_{number}": f"I4_{number}" for number in range(1, 5)})
def test_lost_holders_are_noticed(lab, case):
    lab.suite.must_be_red(case)
