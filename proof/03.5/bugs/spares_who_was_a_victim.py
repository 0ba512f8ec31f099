STORY = "A learner lets nobody give way twice while there are others. The least urgent runs on."
CONCEPT = "What a request is decides, at the moment of the call: no name, no count and no earlier call stands for it."
EDITS = [
    (
        "        victim = max(self.running,",
        (
            "        fresh = [request for request in self.running if not request.num_preemptions] or self.running\n"
            "        victim = max(fresh,"
        ),
    ),
]
