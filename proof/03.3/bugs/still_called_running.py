STORY = (
    "A learner leaves the status. The request waits under the name of one that runs, and an abort looks for it in"
    " the wrong list."
)
CONCEPT = "A victim is marked as one that had begun: it is PREEMPTED, one time more."
EDITS = [
    (
        ("        request.status = RequestStatus.PREEMPTED\n"),
        "",
    ),
]
