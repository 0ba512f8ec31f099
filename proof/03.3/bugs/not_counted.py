STORY = "A learner forgets the counter of preemptions. A system that throws out half its work looks healthy."
CONCEPT = "A victim is marked as one that had begun: it is PREEMPTED, one time more."
EDITS = [
    (
        ("        request.num_preemptions += 1\n"),
        "",
    ),
]
