STORY = "A learner forgets the dictionary. The engine never becomes idle, and the id is refused for ever."
CONCEPT = "Whoever ends leaves at once: out of running, blocks back, and its id is free again."
EDITS = [
    (
        ("                    del self._requests[request_id]\n"),
        "",
    ),
]
