STORY = (
    "A learner sets the counter where it should be raised. A request that is thrown out ten times looks like one "
    "that was once."
)
CONCEPT = "A victim is marked as one that had begun: it is PREEMPTED, one time more."
EDITS = [
    (
        ("        request.num_preemptions += 1\n"),
        ("        request.num_preemptions = 1\n"),
    ),
]
