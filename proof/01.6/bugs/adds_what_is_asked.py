STORY = (
    "num_tokens is taken for the number of new tokens. Who asks for one token more gets blocks for all of "
    "its tokens again."
)
CONCEPT = "A request that grows gets the blocks that it lacks; one that asks for less than it has keeps all of them."
EDITS = [
    (
        """        needed = -(-num_tokens // self.block_size)
""",
        """        needed = held + -(-num_tokens // self.block_size)
""",
    ),
]
