STORY = (
    "The remainder is taken in place to save an array. The caller's positions, which RoPE reads next, are now "
    "all below block_size."
)
CONCEPT = "The caller goes on using what it passed: nothing is changed in place."
EDITS = [
    (
        "    return block_ids * block_size + positions % block_size",
        """    positions %= block_size
    return block_ids * block_size + positions""",
    ),
]
