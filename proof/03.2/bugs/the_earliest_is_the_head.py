STORY = (
    "A learner admits the one of the queue that arrived first. A victim stands at the front though it arrived later."
)
CONCEPT = (
    "The order of admission decides in running, the order of the queue in waiting; names, times and priorities do not."
)
EDITS = [
    (
        "request = self._next_waiting()",
        "request = min(self.waiting, key=lambda request: request.arrival_time, default=None)",
    ),
]
