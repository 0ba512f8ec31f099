STORY = "A learner sets the status to WAITING. The queue takes the victim for a newcomer and puts it last."
CONCEPT = "A victim is marked as one that had begun: it is PREEMPTED, one time more."
EDITS = [
    (
        ("        request.status = RequestStatus.PREEMPTED\n"),
        ("        request.status = RequestStatus.WAITING\n"),
    ),
]
