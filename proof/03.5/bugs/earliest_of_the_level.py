STORY = "A learner breaks ties the wrong way: among equals the one that has waited longest gives way."
CONCEPT = "The victim is the least urgent of those that run, and the others keep their order."
EDITS = [
    (
        "victim = max(self.running, key=lambda request: (request.priority, request.arrival_time))",
        "victim = max(self.running, key=lambda request: (request.priority, -request.arrival_time))",
    ),
]
