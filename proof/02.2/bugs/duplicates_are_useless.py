STORY = "A freed block goes to the front if another block answers for its content."
CONCEPT = "A block with a name is worth its place, also if another block has the same content."
EDITS = [
    (
        """                (useless if block.block_hash is None else cached).append(block)
""",
        """                (useless if block.block_hash is None or self.get_cached_block(block.block_hash) is not block else cached).append(block)
""",
    ),
]
