STORY = "A learner shares nothing with a parent that has computed nothing, though it has slots."
CONCEPT = "A fork takes no block: the child's table reads as its parent's."
EDITS = [
    (
        "        if table:\n            self.block_pool.touch(table)\n",
        "        if table and parent.num_computed_tokens:\n            self.block_pool.touch(table)\n",
    ),
]
