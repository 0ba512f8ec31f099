STORY = (
    "Of two copies into one block the first is told, since a block is filled once. It was that of a holder who is gone."
)
CONCEPT = "A block may be given twice in one step: what its second holder is to find in it is what is copied last."
EDITS = [
    (
        "        copies, self._copies = self._copies, []\n        return copies\n",
        "        copies, self._copies = self._copies, []\n        first = {}\n        for old, new in copies:\n            first.setdefault(new, old)\n        return [(old, new) for new, old in first.items()]\n",
    ),
]
