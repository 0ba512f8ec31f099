STORY = (
    "A learner sorts the running list to find the victim at its end. The order of the batch changes with every "
    "shortage."
)
CONCEPT = "The victim is the least urgent of those that run, and the others keep their order."
EDITS = [
    (
        (
            "victim = max(self.running, key=lambda request: (request.priority, request.arrival_time))\n"
            "        self.running.remove(victim)\n"
        ),
        ("self.running.sort(key=urgency)\n        victim = self.running.pop()\n"),
    ),
]
