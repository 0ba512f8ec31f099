STORY = (
    "A guard against collisions skips a slot that another token has. Requests that share a prefix lose the "
    "tokens of the shared block."
)
CONCEPT = "Requests with a common prefix share a block, so their tokens there share their slots."
EDITS = [
    (
        "    return block_ids * block_size + positions % block_size",
        """    slots = block_ids * block_size + positions % block_size
    first = np.unique(slots, return_index=True)[1]
    alone = np.isin(np.arange(len(slots)), first)
    return np.where(alone, slots, -1)""",
    ),
]
