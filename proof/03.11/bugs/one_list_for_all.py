STORY = "The promised copies lie in a list of the class. Of two managers the one that is asked first tells the copies of both."
CONCEPT = "Two managers know nothing of each other: each tells the copies that it promised."
EDITS = [
    (
        '    """What is not defined here is the reference\'s."""\n',
        '    """What is not defined here is the reference\'s."""\n\n    PROMISED = []\n',
    ),
    (
        "                self._copies.append((table[i].block_id, copy.block_id))\n",
        "                self.PROMISED.append((table[i].block_id, copy.block_id))\n",
    ),
    (
        "        copies, self._copies = self._copies, []\n        return copies\n",
        "        copies = list(self.PROMISED)\n        self.PROMISED.clear()\n        return copies\n",
    ),
]
