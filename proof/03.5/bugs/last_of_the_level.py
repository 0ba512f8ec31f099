STORY = (
    "A learner looks at the number alone and takes the last of equals. Who came back late is thrown out though it"
    " arrived first."
)
CONCEPT = "The victim is the least urgent of those that run, and the others keep their order."
EDITS = [
    (
        "victim = max(self.running, key=lambda request: (request.priority, request.arrival_time))",
        "victim = max(reversed(self.running), key=lambda request: request.priority)",
    ),
]
