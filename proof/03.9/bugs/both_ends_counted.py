STORY = "A learner counts block ids. Every copy has two of them."
CONCEPT = "Each pair of blocks is one copy, in its own direction; preempted requests are another count."
EDITS = [
    (
        ("            num_copied_blocks=len(plan.copy),\n"),
        ("            num_copied_blocks=2 * len(plan.copy),\n"),
    ),
]
