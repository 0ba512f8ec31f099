STORY = (
    "The slots are written into a buffer that is made once. The step before, whose slots are still on their way to"
    " the device, gets those of this one."
)
CONCEPT = (
    "Each step stands alone: the caller keeps the last one's slots, and writes the next step into the same arrays."
)
EDITS = [
    (
        "def to_slots(",
        """_buffer = np.empty(1 << 16, np.int64)


def to_slots(""",
    ),
    (
        "    return block_ids * block_size + positions % block_size",
        """    slots = _buffer[: len(positions)]
    slots[:] = block_ids * block_size + positions % block_size
    return slots""",
    ),
]
