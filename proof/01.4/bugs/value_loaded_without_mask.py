STORY = "The mask is forgotten in one of the two loads. The value behind the last token is nobody's."
CONCEPT = "A range is padded to a power of two; what it holds beyond ROW is neither loaded nor stored."
EDITS = [
    (
        """        value = tl.load(value_ptr + token * value_stride + numbers, mask=mask)
""",
        """        value = tl.load(value_ptr + token * value_stride + numbers)
""",
    ),
]
