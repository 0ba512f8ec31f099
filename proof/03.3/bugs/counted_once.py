STORY = (
    "A learner sets the counter where it should be raised. A request that is thrown out ten times looks like one "
    "that was once."
)
CONCEPT = "A victim waits, and is known as one that had begun: PREEMPTED, one more time."
EDITS = [
    (
        ("        request.num_preemptions += 1\n"),
        ("        request.num_preemptions = 1\n"),
    ),
]
