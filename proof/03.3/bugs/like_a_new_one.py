STORY = "A learner sets the status to WAITING. The queue takes the victim for a newcomer and puts it last."
CONCEPT = "A victim waits, and is known as one that had begun: PREEMPTED, one more time."
EDITS = [
    (
        ("        request.status = RequestStatus.PREEMPTED\n"),
        ("        request.status = RequestStatus.WAITING\n"),
    ),
]
