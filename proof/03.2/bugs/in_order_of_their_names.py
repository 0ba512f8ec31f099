STORY = (
    "A learner goes through those that run by request id, so that steps are easy to compare. With names "
    "that do not ascend another one is served first."
)
CONCEPT = (
    "The order of admission decides in running, the order of the queue in waiting; names, times and priorities do not."
)
EDITS = [
    (
        "self._schedule_running(list(self.running)",
        "self._schedule_running(sorted(self.running, key=lambda request: request.request_id)",
    ),
]
