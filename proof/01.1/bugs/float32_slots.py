STORY = (
    "The arithmetic is done in float32, which a GPU likes best. Above 16,777,216 only some whole numbers exist there."
)
CONCEPT = "A large cache has more slots than an int32 can count, so slots are int64."
EDITS = [
    (
        "    return block_ids * block_size + positions % block_size",
        "    return (block_ids.astype(np.float32) * np.float32(block_size) + (positions % block_size).astype(np.float32)).astype(np.int64)",
    ),
]
