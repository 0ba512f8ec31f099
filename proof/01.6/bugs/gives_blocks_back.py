STORY = (
    "The count is set to what is needed now. A request that asks for less gives blocks back with its tokens in them."
)
CONCEPT = "A request that grows gets the blocks that it lacks; one that asks for less than it has keeps all of them."
EDITS = [
    (
        """        self.num_blocks[request_id] = max(held, needed)
""",
        """        self.num_blocks[request_id] = needed
""",
    ),
]
