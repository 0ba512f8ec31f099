STORY = (
    "Block and offset change places, as in a cache [block_size, num_blocks]. The tokens of one block are strewn "
    "over the cache."
)
CONCEPT = "The slots of block b are block_size numbers in a row, from b * block_size on."
EDITS = [
    (
        "    return block_ids * block_size + positions % block_size",
        "    return positions % block_size * block_size + block_ids",
    ),
]
