STORY = (
    "A learner looks at the number alone. Among equals the first in the list gives way, which is the one that has"
    " waited longest."
)
CONCEPT = "The victim is the least urgent of those that run, and the others keep their order."
EDITS = [
    (
        "victim = max(self.running, key=lambda request: (request.priority, request.arrival_time))",
        "victim = max(self.running, key=lambda request: request.priority)",
    ),
]
