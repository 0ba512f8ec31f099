STORY = (
    "A learner looks for the place by the number alone. A late arrival stands behind those of its priority that "
    "came after it, but were added before it."
)
CONCEPT = "The queue is in order of urgency, whatever the order in which requests come."
EDITS = [
    (
        "insort(self.waiting, request, key=urgency)",
        "insort(self.waiting, request, key=lambda other: other.priority)",
    ),
]
