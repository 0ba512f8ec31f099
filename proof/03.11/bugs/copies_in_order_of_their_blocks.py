STORY = (
    "The copies are sorted, so that the runner reads the pool from front to back. They are not told in the order "
    "in which they were promised."
)
CONCEPT = "A copy is told once, for the coming step: a list that was handed out does not change."
EDITS = [
    (
        "        copies, self._copies = self._copies, []\n        return copies\n",
        "        copies, self._copies = self._copies, []\n        return sorted(copies)\n",
    ),
]
