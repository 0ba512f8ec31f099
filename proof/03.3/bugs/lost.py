STORY = "A learner forgets the queue. The request is in neither list, and its user waits for ever."
CONCEPT = "A victim goes before all that wait, and an older victim before a younger."
EDITS = [
    (
        ("        self._enqueue(request)\n"),
        "",
    ),
]
