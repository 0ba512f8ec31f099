STORY = (
    "A learner cleans up at the beginning of the next update. For one step a finished request holds a place that "
    "nobody may take."
)
CONCEPT = "A request that ends leaves at once: it is not in running, its blocks are free, and so is its id."
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
