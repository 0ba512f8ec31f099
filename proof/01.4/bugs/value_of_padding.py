STORY = "The condition is put around the store of the key only. The values of padding land before the cache."
CONCEPT = "A negative slot is no place: neither the last slot, nor the first, nor the memory before the cache."
EDITS = [
    (
        "        tl.store(value_cache_ptr + slot * ROW + numbers, value, mask=mask)",
        """    numbers = tl.arange(0, BLOCK)
    mask = numbers < ROW
    value = tl.load(value_ptr + token * value_stride + numbers, mask=mask)
    tl.store(value_cache_ptr + slot * ROW + numbers, value, mask=mask)""",
    ),
]
