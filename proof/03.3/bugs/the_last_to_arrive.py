STORY = (
    "A learner goes by the time of arrival. What runs is ordered by admission, and the two differ once somebody "
    "has come back."
)
CONCEPT = "The youngest gives way: the last that was admitted, whoever else is small or cheap or late."
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
