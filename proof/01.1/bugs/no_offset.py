STORY = "The offset is forgotten, so a slot is the start of its block. Each token overwrites the one before."
CONCEPT = "The slots of block b are block_size numbers in a row, from b * block_size on."
EDITS = [
    (
        "    return block_ids * block_size + positions % block_size",
        "    return block_ids * block_size",
    ),
]
