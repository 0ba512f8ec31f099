STORY = (
    "Only those who hold a table are told their copies. The promise to somebody who was freed before stays in the"
    " list, until there is one of that name again."
)
CONCEPT = "A promise ends with the step: a request that left before the copies were made has none in a later step."
EDITS = [
    (
        "                self._copies.append((table[i].block_id, copy.block_id))\n",
        "                self._copies.append((request.request_id, table[i].block_id, copy.block_id))\n",
    ),
    (
        "        copies, self._copies = self._copies, []\n        return copies\n",
        "        copies = self._copies\n        self._copies = [copy for copy in copies if copy[0] not in self._tables]\n        return [copy[1:] for copy in copies if copy[0] in self._tables]\n",
    ),
]
