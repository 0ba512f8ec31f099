STORY = "A learner leaves the finished request in running. The next step computes it again."
CONCEPT = "A request that ends leaves at once: it is not in running, its blocks are free, and so is its id."
EDITS = [
    (
        (
            "        if finished:\n"
            "            self.running = [request for request in self.running if request.status is RequestStatus.RUNNING]\n"
        ),
        "",
    ),
]
