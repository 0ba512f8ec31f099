STORY = "A learner lets the count end at 3, since more is not shown."
CONCEPT = "A victim is marked as one that had begun: it is PREEMPTED, one time more."
EDITS = [
    (
        "request.num_preemptions += 1",
        "request.num_preemptions = min(3, request.num_preemptions + 1)",
    ),
]
