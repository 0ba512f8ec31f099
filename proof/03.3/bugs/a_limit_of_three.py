STORY = "A learner lets the count end at 3, since more is not shown."
CONCEPT = "A victim waits, and is known as one that had begun: PREEMPTED, one more time."
EDITS = [
    (
        "request.num_preemptions += 1",
        "request.num_preemptions = min(3, request.num_preemptions + 1)",
    ),
]
