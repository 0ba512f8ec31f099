STORY = "A learner leaves the finished request in running. The next step computes it again."
CONCEPT = "Whoever ends leaves at once: out of running, blocks back, and its id is free again."
EDITS = [
    (
        (
            "        if finished:\n"
            "            self.running = [request for request in self.running if request.status is RequestStatus.RUNNING]\n"
        ),
        "",
    ),
]
