STORY = "0 is added, to have a number of the right type. -0.0 becomes 0.0."
CONCEPT = "A row is copied, not judged: NaN, infinities and -0.0 arrive as they are."
EDITS = [
    (
        """        value = tl.load(value_ptr + token * value_stride + numbers, mask=mask)
""",
        """        value = tl.load(value_ptr + token * value_stride + numbers, mask=mask)
        value = value + 0.0
""",
    ),
]
