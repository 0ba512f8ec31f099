STORY = (
    "A learner queues first and marks later. At the time of queueing the request is not yet PREEMPTED, so it goes"
    " to the back."
)
CONCEPT = "Who has begun comes back first: a victim goes before all that wait, an older victim before a younger."
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
