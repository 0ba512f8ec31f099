STORY = "A learner appends the victim like a newcomer. Under load it is overtaken by everybody who comes later."
CONCEPT = "Who has begun comes back first: a victim goes before all that wait, an older victim before a younger."
EDITS = [
    (
        ("        self._enqueue(request)\n"),
        ("        self.waiting.append(request)\n"),
    ),
]
