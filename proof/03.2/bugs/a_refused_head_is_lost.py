STORY = (
    "A learner takes the head out of the queue before it knows whether it fits. A refused request is in neither list."
)
CONCEPT = "While the head of the queue does not fit, those behind it wait too, so it cannot starve."
EDITS = [
    (
        "request = self._next_waiting()",
        "request = self.waiting.popleft() if self.waiting else None",
    ),
    (
        ("        self.waiting.remove(request)\n"),
        "",
    ),
]
