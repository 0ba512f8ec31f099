STORY = "A learner takes a minimum, since the queue begins with it. The most urgent gives way to everybody."
CONCEPT = "The victim is the least urgent of those that run, and the others keep their order."
EDITS = [
    (
        "victim = max(self.running, key=lambda request: (request.priority, request.arrival_time))",
        "victim = min(self.running, key=lambda request: (request.priority, request.arrival_time))",
    ),
]
