STORY = "A learner makes a new list only where there was something to tell. The empty one that was told grows."
CONCEPT = "A copy is told once, for the coming step: a list that was handed out does not change."
EDITS = [
    (
        "        copies, self._copies = self._copies, []\n        return copies\n",
        "        copies = self._copies\n        if copies:\n            self._copies = []\n        return copies\n",
    ),
]
