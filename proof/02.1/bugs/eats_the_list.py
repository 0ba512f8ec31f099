STORY = "append_n() takes the blocks out of the list that it is given, and the caller is left with an empty one."
CONCEPT = "A list that is given, or was given back, is the caller's: neither of the two changes the other's."
EDITS = [
    (
        """        for block in blocks:
            last.next_free_block = block
            block.prev_free_block = last
            last = block
            self.num_free_blocks += 1
        last.next_free_block = self._tail
""",
        """        blocks = blocks if isinstance(blocks, list) else list(blocks)
        while blocks:
            block = blocks.pop(0)
            last.next_free_block = block
            block.prev_free_block = last
            last = block
            self.num_free_blocks += 1
        last.next_free_block = self._tail
""",
    ),
    (
        """        self.append_n(blocks)
""",
        """        self.append_n(list(blocks))
""",
    ),
]
