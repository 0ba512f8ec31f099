STORY = "A learner moves whoever got a token to the end of running. The oldest becomes the next victim."
CONCEPT = "A request that ends changes nothing for its neighbours: each gets its token and keeps its order."
EDITS = [
    (
        (
            "        if finished:\n"
            "            self.running = [request for request in self.running if request.status is RequestStatus.RUNNING]\n"
        ),
        (
            "        scheduled = [request for request in output.scheduled_requests if request.status is RequestStatus.RUNNING]\n"
            "        others = [request for request in self.running if request not in output.scheduled_requests]\n"
            "        self.running = others + scheduled[::-1]\n"
        ),
    ),
]
