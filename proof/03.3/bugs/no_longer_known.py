STORY = (
    "A learner takes the request out of the scheduler's books, as at its end. The engine stops while it still waits."
)
CONCEPT = "Preemption costs time, never a token: every request ends, and the oldest is never preempted."
EDITS = [
    (
        ("        self._enqueue(request)\n"),
        ("        self._enqueue(request)\n        self._requests.pop(request.request_id, None)\n"),
    ),
]
