STORY = "The promised copies lie in a list of the module. One manager tells, and forgets, those of another."
CONCEPT = "Two managers know nothing of each other: each tells the copies that it promised."
EDITS = [
    ("class ForkingKVCacheManager(", "PROMISED = []\n\n\nclass ForkingKVCacheManager("),
    (
        "                self._copies.append((table[i].block_id, copy.block_id))\n",
        "                PROMISED.append((table[i].block_id, copy.block_id))\n",
    ),
    (
        "        copies, self._copies = self._copies, []\n        return copies\n",
        "        copies = list(PROMISED)\n        PROMISED.clear()\n        return copies\n",
    ),
]
