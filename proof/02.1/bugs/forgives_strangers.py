STORY = (
    "remove() uses a deletion that does not mind a missing key. A block that is held by a request is removed "
    "again, and the double use goes unnoticed."
)
CONCEPT = "A block that is not in the queue cannot be removed: ValueError, and nothing changes."
BASE = "ordered_dict"
EDITS = [
    (
        '        if block.block_id not in self._order:\n            raise ValueError(f"{block} is not free")\n        del self._order[block.block_id]\n',
        "        self._order.pop(block.block_id, None)\n",
    ),
]
