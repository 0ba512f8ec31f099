"""Lab 03.7: the learner's tests, on correct and on buggy versions."""

from labkit import cases, concept


@concept("A test states what must hold, not how it is done: a correct engine passes it.", invariant="I1")
@cases(**{f"correct_{number}": f"correct_{number}" for number in range(1, 13)})
def test_correct_versions_are_green(lab, case):
    lab.suite.must_be_green(case)


@concept("A limit is a limit in every step: look at each one, with several requests and few blocks.", invariant="I2")
@cases(**{f"I2_{number}": f"I2_{number}" for number in range(1, 4)})
def test_broken_limits_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept(
    "Count places and blocks before and after the model runs: a request that leaves frees all of its own.",
    invariant="I3",
)
@cases(**{f"I3_{number}": f"I3_{number}" for number in range(1, 4)})
def test_what_is_left_behind_is_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("A schedule may cost time, never a token: let a model say something else at every place.", invariant="I4")
@cases(**{f"I4_{number}": f"I4_{number}" for number in range(1, 5)})
def test_wrong_tokens_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("An order shows only in a crowd: let those behind fit where the one in front does not.", invariant="I5")
@cases(**{f"I5_{number}": f"I5_{number}" for number in range(1, 4)})
def test_overtaking_is_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("Where nothing happens no other law is broken, and no request ever ends: ask for progress.", invariant="I6")
@cases(**{f"I6_{number}": f"I6_{number}" for number in range(1, 4)})
def test_standstill_is_noticed(lab, case):
    lab.suite.must_be_red(case)
