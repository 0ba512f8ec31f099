STORY = (
    "The ids stay int32 as they come out of the table, so the product wraps around. It shows on the first "
    "machine with a large cache."
)
CONCEPT = "A large cache has more slots than an int32 can count, so slots are int64."
EDITS = [
    (
        """.astype(np.int64)
""",
        """
""",
    ),
    (
        "    return block_ids * block_size + positions % block_size",
        "    return (block_ids * np.int32(block_size)).astype(np.int64) + positions % block_size",
    ),
]
