STORY = (
    "A learner sorts those that run by their arrival. Whoever was admitted first may have arrived last, "
    "when it was added by hand or came back."
)
CONCEPT = (
    "The order of admission decides in running, the order of the queue in waiting; names, times and priorities do not."
)
EDITS = [
    (
        "self._schedule_running(list(self.running)",
        "self._schedule_running(sorted(self.running, key=lambda request: request.arrival_time)",
    ),
]
