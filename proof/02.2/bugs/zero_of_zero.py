STORY = (
    "get_new_blocks() looks at whether a block is free before it looks at how many are asked for, and refuses"
    " none of none."
)
CONCEPT = "None are asked for: none are given, also when none are free, and nothing changes."
EDITS = [
    (
        """        taken = self.free_queue.popleft_n(num_blocks)
""",
        """        if not self.num_free_blocks:
            raise ValueError("no block is free")
        taken = self.free_queue.popleft_n(num_blocks)
""",
    ),
]
