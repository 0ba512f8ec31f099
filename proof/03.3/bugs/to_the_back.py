STORY = "A learner appends the victim like a newcomer. Under load it is overtaken by everybody who comes later."
CONCEPT = "A victim goes before all that wait, and an older victim before a younger."
EDITS = [
    (
        ("        self._enqueue(request)\n"),
        ("        self.waiting.append(request)\n"),
    ),
]
