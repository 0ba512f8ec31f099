STORY = (
    "A learner heard that block 0 is the null block and treats it as 'no block yet'. All tokens there get slot "
    "-1 and are never stored."
)
CONCEPT = "The slots of block b are block_size numbers in a row, from b * block_size on; block 0 is a block."
EDITS = [
    (
        "    return block_ids * block_size + positions % block_size",
        "    return np.where(block_ids == 0, -1, block_ids * block_size + positions % block_size)",
    ),
]
