STORY = (
    "A block is cleared when its first slot is written, to be on the safe side. What another request of the step "
    "wrote in its shared block is lost."
)
CONCEPT = "A slot that no row names keeps its content, in the blocks that are written, too."
EDITS = [
    (
        """                block_id, offset = divmod(slot, metadata.block_size)
""",
        """                block_id, offset = divmod(slot, metadata.block_size)
                if offset == 0:
                    key_cache[block_id], value_cache[block_id] = 0, 0
""",
    ),
]
