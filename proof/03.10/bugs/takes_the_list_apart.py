STORY = (
    "The connector takes the blocks out of the list that it was given, one by one. Whoever gave it has no list "
    "any more."
)
CONCEPT = "The lists that a method is given are read, and are the caller's."
EDITS = [
    (
        "        pairs = self.pool.store(request_id, block_ids)\n",
        "        pairs = self.pool.store(request_id, [block_ids.pop(0) for _ in list(block_ids)])\n",
    ),
]
