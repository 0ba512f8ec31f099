STORY = (
    "The values are masked by what is visible alone. What pads a head is never stored, but it is read, and behind "
    "the last slot there is nothing."
)
CONCEPT = "Every place in sight is read, each of the output is written by one program, and nothing else is touched."
EDITS = [
    (
        """        values = tl.load(value_cache_ptr + numbers, mask=mask, other=0.0).to(tl.float32)
""",
        """        values = tl.load(value_cache_ptr + numbers, mask=visible[:, None], other=0.0).to(tl.float32)
""",
    ),
]
