STORY = "prepend_n() makes a new list for every block to have them in reverse: the cost is the square of their number."
CONCEPT = "The cost grows with the number of blocks moved, and not with its square."
EDITS = [
    (
        "        for block in blocks:\n            last.next_free_block = block\n            block.prev_free_block = last\n            last = block\n            self.num_free_blocks += 1\n        assert first",
        "        reverse: list[KVCacheBlock] = []\n        for block in blocks:\n            reverse = [block, *reverse]\n        for block in reverse[::-1]:\n            last.next_free_block = block\n            block.prev_free_block = last\n            last = block\n            self.num_free_blocks += 1\n        assert first",
    )
]
