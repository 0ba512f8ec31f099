STORY = "A learner sorts the copies by the block they go to, to write memory in order."
CONCEPT = "Copies are told in the order in which they were promised, whatever the numbers of the blocks."
EDITS = [
    (
        "        copies, self._copies = self._copies, []\n        return copies\n",
        "        copies, self._copies = self._copies, []\n        return sorted(copies, key=lambda pair: pair[1])\n",
    ),
]
