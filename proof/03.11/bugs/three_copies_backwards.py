STORY = "A learner takes the copies from the end where there are many, since pop() is cheap there."
CONCEPT = "Copies are told in the order in which they were promised, whatever the numbers of the blocks."
EDITS = [
    (
        "        copies, self._copies = self._copies, []\n        return copies\n",
        "        copies, self._copies = self._copies, []\n        return copies[::-1] if len(copies) > 2 else copies\n",
    ),
]
