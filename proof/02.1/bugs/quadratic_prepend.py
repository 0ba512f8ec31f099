STORY = "prepend_n() makes a new list for every block to have them in reverse: the cost is the square of their number."
CONCEPT = "The cost grows with the number of blocks moved, and not with its square."
EDITS = [
    (
        """        for block in blocks:
            last.next_free_block = block
            block.prev_free_block = last
            last = block
            self.num_free_blocks += 1
        assert first""",
        """        reverse: list[KVCacheBlock] = []
        for block in blocks:
            reverse = [block, *reverse]
        for block in reverse[::-1]:
            last.next_free_block = block
            block.prev_free_block = last
            last = block
            self.num_free_blocks += 1
        assert first""",
    ),
]
