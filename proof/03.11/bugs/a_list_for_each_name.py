STORY = (
    "The promises are kept in a list for each request and told in the order in which the names were first seen. A"
    " block that is given twice in one step gets the wrong copy last."
)
CONCEPT = "A block may be given twice in one step: what its second holder is to find in it is what is copied last."
EDITS = [
    (
        "                self._copies.append((table[i].block_id, copy.block_id))\n",
        "                lists = vars(self).setdefault('lists', {})\n                lists.setdefault(request.request_id, []).append((table[i].block_id, copy.block_id))\n",
    ),
    (
        "        copies, self._copies = self._copies, []\n        return copies\n",
        "        copies = []\n        for pairs in vars(self).get('lists', {}).values():\n            copies += pairs\n            pairs.clear()\n        return copies\n",
    ),
]
