"""Lab 03.14: the learner's findings about two traces, and the tests, on correct and on buggy versions."""

from labkit import cases, concept


@concept("A test for a bug is green where the bug is not, however the scheduler is written.", invariant="I1")
@cases(**{f"correct_{number}": f"correct_{number}" for number in range(1, 15)})
def test_correct_versions_are_green(lab, case):
    lab.suite.must_be_green(case)


@concept("The damage is late and elsewhere: go back to the first record that cannot be.", invariant="I2")
@cases(a="a", b="b")
def test_the_culprit_is_named(lab, case):
    lab.suite.must_name(case)


@concept(
    "Starvation is a wrong place in the queue, long before: compare running requests with waiting ones.", invariant="I3"
)
@cases(**{f"I3_{number}": f"I3_{number}" for number in range(1, 5)})
def test_lost_places_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("A victim comes back in pieces, and says what it would have said: force it, and compare.", invariant="I4")
@cases(**{f"I4_{number}": f"I4_{number}" for number in range(1, 4)})
def test_wrong_words_after_a_preemption_are_noticed(lab, case):
    lab.suite.must_be_red(case)
