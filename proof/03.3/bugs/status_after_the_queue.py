STORY = (
    "A learner queues first and marks later. At the time of queueing the request is not yet PREEMPTED, so it goes"
    " to the back."
)
CONCEPT = "A victim goes before all that wait, and an older victim before a younger."
EDITS = [
    (
        ("        request.status = RequestStatus.PREEMPTED\n"),
        "",
    ),
    (
        ("        self._enqueue(request)\n"),
        ("        self._enqueue(request)\n        request.status = RequestStatus.PREEMPTED\n"),
    ),
]
