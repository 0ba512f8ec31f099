"""Lab 03.12: the learner's experiment, on eleven schedulers: six keep every token, five do not."""

from labkit import cases, concept


@concept("Late, slow, unfair, too large: none of that is a wrong token, and no reason to be red.", invariant="I1")
@cases(**{f"correct_{number}": f"correct_{number}" for number in range(1, 7)})
def test_schedulers_that_keep_the_tokens_are_green(lab, case):
    lab.suite.must_be_green(case)


@concept(
    "A preempted request keeps its output: compare whole outputs with a truth from before the run.", invariant="I2"
)
def test_what_a_preemption_spoils_is_noticed(lab):
    lab.suite.must_be_red("I2_1")


@concept("What was swapped comes back to the last slot: let someone give way in the middle of a block.", invariant="I3")
def test_what_a_swap_spoils_is_noticed(lab):
    lab.suite.must_be_red("I3_1")


@concept(
    "Choices of one prompt part inside a block: one that writes there may not write for the others.", invariant="I4"
)
def test_what_a_fork_spoils_is_noticed(lab):
    lab.suite.must_be_red("I4_1")


@concept("A block has a name before it is filled: take a chunk back in the step that was to fill it.", invariant="I5")
def test_what_a_false_hit_spoils_is_noticed(lab):
    lab.suite.must_be_red("I5_1")


@concept("An inner chunk is silent, after the prompt too: let a victim come back in small pieces.", invariant="I6")
def test_what_a_talkative_chunk_spoils_is_noticed(lab):
    lab.suite.must_be_red("I6_1")
