STORY = (
    "The table is turned round before it is given to the pool, which turns it round once more. The head of the "
    "prompt is then evicted first."
)
CONCEPT = "All is given back, the head to be taken last, and the request holds no table any more."
EDITS = [
    (
        """        self.block_pool.free_blocks(table)
""",
        """        self.block_pool.free_blocks(table[::-1])
""",
    ),
]
