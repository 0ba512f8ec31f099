STORY = (
    "Somebody guards against a request for no blocks. A decode step whose last block has room asks for none, "
    "so nearly every step ends with an error."
)
CONCEPT = "None are asked for: none are given, also when none are free, and nothing changes."
EDITS = [
    (
        """        taken = self.free_queue.popleft_n(num_blocks)
        for block in taken:
            self.uncache_block(block)
            block.ref_cnt = 1
        return taken
""",
        """        if num_blocks < 1:
            raise ValueError("ask for at least one block")
        taken = self.free_queue.popleft_n(num_blocks)
        for block in taken:
            self.uncache_block(block)
            block.ref_cnt = 1
        return taken
""",
    ),
]
