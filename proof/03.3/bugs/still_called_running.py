STORY = (
    "A learner leaves the status. The request waits under the name of one that runs, and an abort looks for it in"
    " the wrong list."
)
CONCEPT = "A victim waits, and is known as one that had begun: PREEMPTED, one more time."
EDITS = [
    (
        ("        request.status = RequestStatus.PREEMPTED\n"),
        "",
    ),
]
