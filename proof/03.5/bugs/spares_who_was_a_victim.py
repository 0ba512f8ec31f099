STORY = "A learner lets nobody give way twice while there are others. The least urgent runs on."
CONCEPT = "The request of this call decides: no request of the same id, no count and no earlier call stands for it."
EDITS = [
    (
        "        victim = max(self.running,",
        (
            "        fresh = [request for request in self.running if not request.num_preemptions] or self.running\n"
            "        victim = max(fresh,"
        ),
    ),
]
