STORY = "Numbers that are almost 0 become 0."
CONCEPT = "A row is copied, not judged: NaN, infinities and -0.0 arrive as they are."
EDITS = [
    (
        """        tl.store(key_cache_ptr + slot * ROW + numbers, key, mask=mask)
        tl.store(value_cache_ptr + slot""",
        """        key = tl.where((key < 1e-38) & (key > 0), 0.0, key).to(key.dtype)
        tl.store(key_cache_ptr + slot * ROW + numbers, key, mask=mask)
        tl.store(value_cache_ptr + slot""",
    ),
]
