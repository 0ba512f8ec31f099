STORY = "Of the blocks that were not computed only the first loses its name: a hit could not go beyond it, until it is computed again."
CONCEPT = "What was promised and not written is not found; what was written, or will be, stays."
EDITS = [
    (
        "for block in table[request.num_computed_tokens // self.block_size :]:",
        "for block in table[request.num_computed_tokens // self.block_size :][:1]:",
    ),
]
