STORY = "append_n() takes the blocks out of the list that it is given, and the caller is left with an empty one."
CONCEPT = "A list that is given, or was given back, is the caller's: neither of the two changes the other's."
EDITS = [
    (
        "        for block in blocks:\n            last.next_free_block = block\n            block.prev_free_block = last\n            last = block\n            self.num_free_blocks += 1\n        last.next_free_block = self._tail\n",
        "        blocks = blocks if isinstance(blocks, list) else list(blocks)\n        while blocks:\n            block = blocks.pop(0)\n            last.next_free_block = block\n            block.prev_free_block = last\n            last = block\n            self.num_free_blocks += 1\n        last.next_free_block = self._tail\n",
    ),
    ("        self.append_n(blocks)\n", "        self.append_n(list(blocks))\n"),
]
