STORY = "The list is handed out and then emptied. It is one list: the caller's is empty, too."
CONCEPT = "A copy is told once, for the coming step: a list that was handed out does not change."
EDITS = [
    (
        ("        copies, self._copies = self._copies, []\n        return copies\n"),
        ("        copies = self._copies\n        self._copies.clear()\n        return copies\n"),
    ),
]
