STORY = (
    "Only the stores are masked, since what is loaded too much is not stored. Behind the last token there is no memory."
)
CONCEPT = "A range is padded to a power of two; what it holds beyond ROW is neither loaded nor stored."
EDITS = [
    (
        """        key = tl.load(key_ptr + token * key_stride + numbers, mask=mask)
""",
        """        key = tl.load(key_ptr + token * key_stride + numbers)
""",
    ),
    (
        """        value = tl.load(value_ptr + token * value_stride + numbers, mask=mask)
""",
        """        value = tl.load(value_ptr + token * value_stride + numbers)
""",
    ),
]
