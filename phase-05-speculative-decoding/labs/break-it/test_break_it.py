"""Lab 05.6: the learner's tests, on correct and on buggy versions."""

from labkit import cases, concept


@concept("A test states what must hold, not how it is done: a correct engine passes it.", invariant="I1")
@cases(**{f"correct_{number}": f"correct_{number}" for number in range(1, 12)})
def test_correct_versions_are_green(lab, case):
    lab.suite.must_be_green(case)


@concept("Drafts cost no token: compare whole outputs with the truth, under drafts of every kind.", invariant="I2")
@cases(**{f"I2_{number}": f"I2_{number}" for number in range(1, 6)})
def test_wrong_tokens_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("What is published is computed, and what is computed is published: look it up after each step.",
         invariant="I3")  # fmt: skip
@cases(**{f"I3_{number}": f"I3_{number}" for number in range(1, 3)})
def test_false_and_lost_hits_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("Right drafts save steps, and every request ends: count what a step gives, in a pool that is tight.",
         invariant="I4")  # fmt: skip
@cases(**{f"I4_{number}": f"I4_{number}" for number in range(1, 5)})
def test_lost_progress_is_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("Drafts come from the text of the request, all of it: choose the text, and say what must follow.",
         invariant="I5")  # fmt: skip
@cases(**{f"I5_{number}": f"I5_{number}" for number in range(1, 5)})
def test_drafts_from_elsewhere_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("A pace shows in the long run only: let drafts be wrong for hundreds of steps, and then right.",
         invariant="I6")  # fmt: skip
@cases(**{f"I6_{number}": f"I6_{number}" for number in range(1, 4)})
def test_bad_paces_are_noticed(lab, case):
    lab.suite.must_be_red(case)
