STORY = (
    "append_n() copies what is left of its list for every block: the cost of a big release is the square of its length."
)
CONCEPT = "The cost grows with the number of blocks moved, and not with its square."
EDITS = [
    (
        """        for block in blocks:
            last.next_free_block = block
            block.prev_free_block = last
            last = block
            self.num_free_blocks += 1
        last.next_free_block = self._tail
""",
        """        blocks = list(blocks)
        while blocks:
            block, blocks = blocks[0], blocks[1:]
            last.next_free_block = block
            block.prev_free_block = last
            last = block
            self.num_free_blocks += 1
        last.next_free_block = self._tail
""",
    ),
]
