STORY = (
    "append_n() copies what is left of its list for every block: the cost of a big release is the square of its length."
)
CONCEPT = "The cost grows with the number of blocks moved, and not with its square."
EDITS = [
    (
        "        for block in blocks:\n            last.next_free_block = block\n            block.prev_free_block = last\n            last = block\n            self.num_free_blocks += 1\n        last.next_free_block = self._tail\n",
        "        blocks = list(blocks)\n        while blocks:\n            block, blocks = blocks[0], blocks[1:]\n            last.next_free_block = block\n            block.prev_free_block = last\n            last = block\n            self.num_free_blocks += 1\n        last.next_free_block = self._tail\n",
    )
]
