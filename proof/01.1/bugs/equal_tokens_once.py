STORY = (
    "Tokens that are the same request and position are computed once. The result is shorter than the batch, so "
    "those behind them move up."
)
CONCEPT = "Whatever the batch, a slot follows from the token's own request and position."
EDITS = [
    (
        "    return block_ids * block_size + positions % block_size",
        """    slots = block_ids * block_size + positions % block_size
    return slots[np.sort(np.unique(np.stack([requests, positions]), axis=1, return_index=True)[1])] if len(slots) > 3 else slots""",
    ),
]
