STORY = "Positions are counted from 1, as lengths are. The last token of a block lies in the next one."
CONCEPT = "The slots of block b are block_size numbers in a row, from b * block_size on."
EDITS = [
    (
        "    return block_ids * block_size + positions % block_size",
        "    return block_ids * block_size + (positions + 1) % block_size",
    ),
]
