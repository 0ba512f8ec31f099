STORY = (
    "The values are masked by what is visible alone. What pads a head is never stored, but it is read, and behind "
    "the last slot there is nothing."
)
CONCEPT = "No place out of the tensors is read or written, and no two programs write the same one."
EDITS = [
    (
        """        values = tl.load(value_cache_ptr + numbers, mask=mask, other=0.0).to(tl.float32)
""",
        """        values = tl.load(value_cache_ptr + numbers, mask=visible[:, None], other=0.0).to(tl.float32)
""",
    ),
]
