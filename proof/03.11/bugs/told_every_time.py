STORY = "The copies are handed out and kept. Every later step makes them again, over what was written since."
CONCEPT = "A copy is told once, for the coming step: a list that was handed out does not change."
EDITS = [
    (
        ("        copies, self._copies = self._copies, []\n        return copies\n"),
        ("        return self._copies\n"),
    ),
]
