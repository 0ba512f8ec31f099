STORY = "A learner lets a request that gave way twice go to the front of running, so that it does not give way a third time. The order is no longer that of admission."
CONCEPT = "An admitted request stands last in running; so does a victim that comes back, however often it gave way."
EDITS = [
    (
        "        self.running.append(request)\n",
        "        self.running.insert(0 if request.num_preemptions > 1 else len(self.running), request)\n",
    )
]
