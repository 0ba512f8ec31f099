STORY = "A step has room for 65,536 tokens; the slots of the others stay 0."
CONCEPT = "Rows, columns and tokens are as many as the arrays hold."
EDITS = [
    (
        """    return block_ids * block_size + positions % block_size
""",
        """    slots = np.zeros(len(positions), np.int64)
    slots[: 2**16] = (block_ids * block_size + positions % block_size)[: 2**16]
    return slots
""",
    ),
]
