STORY = "Numbers go through float32, since kernels compute in it. A float64 loses 29 bits."
CONCEPT = "A key is copied, not computed with: 100,000 is a bfloat16 and no float16."
EDITS = [
    (
        """        tl.store(key_cache_ptr + slot * ROW + numbers, key, mask=mask)
""",
        """        tl.store(key_cache_ptr + slot * ROW + numbers, key.to(tl.float32), mask=mask)
""",
    ),
]
