STORY = (
    "A learner admits the one with the lowest priority number, whatever the policy. First come, first "
    "served knows no priority."
)
CONCEPT = (
    "The order of admission decides in running, the order of the queue in waiting; names, times and priorities do not."
)
EDITS = [
    (
        "request = self._next_waiting()",
        "request = min(self.waiting, key=lambda request: request.priority, default=None)",
    ),
]
