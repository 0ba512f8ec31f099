STORY = "Numbers of 16 bits pass through float32, which is exact for numbers, but not for the sign of a NaN."
CONCEPT = "What is stored is what was computed, bit for bit, whatever the dtype."
EDITS = [
    (
        """= key[token]""",
        """= key[token].float().to(key.dtype) if key.dtype.itemsize == 2 else key[token]""",
    ),
    (
        """= value[token]""",
        """= value[token].float().to(key.dtype) if key.dtype.itemsize == 2 else value[token]""",
    ),
]
