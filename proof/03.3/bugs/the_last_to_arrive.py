STORY = (
    "A learner goes by the time of arrival. What runs is ordered by admission, and the two differ once somebody "
    "has come back."
)
CONCEPT = (
    "The youngest gives way: the last that was admitted, whatever the size, the time or the priority of the others."
)
EDITS = [
    (
        "return self.running.pop()",
        (
            "victim = max(self.running, key=lambda request: request.arrival_time)\n"
            "            self.running.remove(victim)\n"
            "            return victim"
        ),
    ),
]
