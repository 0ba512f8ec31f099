STORY = "A learner forgets the queue. The request is in neither list, and its user waits for ever."
CONCEPT = "Who has begun comes back first: a victim goes before all that wait, an older victim before a younger."
EDITS = [
    (
        ("        self._enqueue(request)\n"),
        "",
    ),
]
