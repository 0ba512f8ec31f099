STORY = "A learner makes a dictionary of the pairs. One block that is copied to three counts once."
CONCEPT = "Each pair of blocks is one copy, in its own direction; preempted requests are another count."
EDITS = [
    (
        ("            num_copied_blocks=len(plan.copy),\n"),
        ("            num_copied_blocks=len(dict(plan.copy)),\n"),
    ),
]
