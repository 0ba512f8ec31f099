STORY = (
    "Copies into blocks that were given away again are told, too, but behind the others. The block's holder reads"
    " what was meant for somebody else."
)
CONCEPT = "A block may be given twice in one step: what its second holder is to find in it is what is copied last."
EDITS = [
    (
        "        copies, self._copies = self._copies, []\n        return copies\n",
        "        copies, self._copies = self._copies, []\n        last = dict((new, number) for number, (_, new) in enumerate(copies))\n        stale = [copy for number, copy in enumerate(copies) if last[copy[1]] > number]\n        return [copy for number, copy in enumerate(copies) if last[copy[1]] == number] + stale\n",
    ),
]
