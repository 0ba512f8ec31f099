STORY = (
    "The place in the cache is computed in 32 bits, which a GPU does faster. It wraps around after 2,147,483,647 "
    "numbers."
)
CONCEPT = "A cache may have more numbers than an int32 can count: a place in it takes 64 bits."
EDITS = [
    (
        """        tl.store(key_cache_ptr + slot * ROW + numbers, key, mask=mask)
""",
        """        to = (slot * ROW).to(tl.int32) + numbers
        tl.store(key_cache_ptr + to, key, mask=mask)
""",
    ),
    (
        """        tl.store(value_cache_ptr + slot * ROW + numbers, value, mask=mask)
""",
        """        tl.store(value_cache_ptr + to, value, mask=mask)
""",
    ),
]
