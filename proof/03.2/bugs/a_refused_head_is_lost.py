STORY = (
    "A learner takes the head out of the queue before it knows whether it fits. A refused request is in neither list."
)
CONCEPT = "The queue has one head: while it does not fit, those behind it wait too, so it cannot starve."
EDITS = [
    (
        "request = self.waiting[0]",
        "request = self.waiting.popleft()",
    ),
    (
        ("        self.waiting.popleft()\n"),
        "",
    ),
]
