"""Lab 08.7: the learner's tests, on correct and on buggy versions."""

from labkit import cases, concept


@concept("A test states what must hold, not how it is done: a correct engine passes it.", invariant="I1")
@cases(**{f"correct_{number}": f"correct_{number}" for number in range(1, 9)})
def test_correct_versions_are_green(lab, case):
    lab.suite.must_be_green(case)


@concept("What the ranks put out together is what one process puts out.", invariant="I2")
@cases(**{f"I2_{number}": f"I2_{number}" for number in range(1, 4)})
def test_wrong_shards_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("The greedy token is that of one process: try negative logits, and equal ones.", invariant="I3")
@cases(**{f"I3_{number}": f"I3_{number}" for number in range(1, 4)})
def test_wrong_heads_and_tokens_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("A message is read later than it is sent: keep it, and look again.", invariant="I4")
@cases(**{f"I4_{number}": f"I4_{number}" for number in range(1, 4)})
def test_wrong_sums_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("Each pair is computed once, by its own expert, and padding by none.", invariant="I5")
@cases(**{f"I5_{number}": f"I5_{number}" for number in range(1, 5)})
def test_wrong_blocks_are_noticed(lab, case):
    lab.suite.must_be_red(case)


@concept("Every expert is somewhere, and on no rank twice.", invariant="I6")
@cases(**{f"I6_{number}": f"I6_{number}" for number in range(1, 4)})
def test_wrong_places_are_noticed(lab, case):
    lab.suite.must_be_red(case)
