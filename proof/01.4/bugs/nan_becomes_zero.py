STORY = "NaN is replaced by 0 on its way, since it is equal to nothing. The layer that went wrong is never found."
CONCEPT = "A row is copied, not judged: NaN, infinities and -0.0 arrive as they are."
EDITS = [
    (
        """        key = tl.load(key_ptr + token * key_stride + numbers, mask=mask)
""",
        """        key = tl.load(key_ptr + token * key_stride + numbers, mask=mask)
        key = tl.where(key == key, key, 0.0)
""",
    ),
]
