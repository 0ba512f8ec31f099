STORY = (
    "The offset is left out of the assignment, so torch broadcasts the row over the whole block. The last token "
    "of a block fills it."
)
CONCEPT = "A slot that no row names keeps its content, in the blocks that are written, too."
EDITS = [
    (
        "key_cache[block_id, offset] = key[token]",
        "key_cache[block_id] = key[token]",
    ),
]
