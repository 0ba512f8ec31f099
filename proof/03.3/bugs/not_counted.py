STORY = "A learner forgets the counter of preemptions. A system that throws out half its work looks healthy."
CONCEPT = "A victim waits, and is known as one that had begun: PREEMPTED, one more time."
EDITS = [
    (
        ("        request.num_preemptions += 1\n"),
        "",
    ),
]
