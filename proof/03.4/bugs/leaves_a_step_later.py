STORY = (
    "A learner cleans up at the beginning of the next update. For one step a finished request holds a place that "
    "nobody may take."
)
CONCEPT = "Whoever ends leaves at once: out of running, blocks back, and its id is free again."
EDITS = [
    (
        (
            "        if finished:\n"
            "            self.running = [request for request in self.running if request.status is RequestStatus.RUNNING]\n"
        ),
        "",
    ),
    (
        ("        finished: list[Request] = []\n"),
        (
            "        finished: list[Request] = []\n"
            "        self.running = [request for request in self.running if request.status is RequestStatus.RUNNING]\n"
        ),
    ),
]
