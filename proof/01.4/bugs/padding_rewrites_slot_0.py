STORY = (
    "Padding is stored without a branch: in slot 0, what slot 0 holds already. The token that owns slot 0 is "
    "written at the same time."
)
CONCEPT = "A negative slot is no place: neither the last slot, nor the first, nor the memory before the cache."
EDITS = [
    (
        """    if slot >= 0:
""",
        """    is_real = slot >= 0
    slot = tl.where(is_real, slot, 0)
    if True:
""",
    ),
    (
        """        tl.store(key_cache_ptr + slot * ROW + numbers, key, mask=mask)
""",
        """        key = tl.where(is_real, key, tl.load(key_cache_ptr + slot * ROW + numbers, mask=mask))
        tl.store(key_cache_ptr + slot * ROW + numbers, key, mask=mask)
""",
    ),
    (
        """        tl.store(value_cache_ptr + slot * ROW + numbers, value, mask=mask)
""",
        """        value = tl.where(is_real, value, tl.load(value_cache_ptr + slot * ROW + numbers, mask=mask))
        tl.store(value_cache_ptr + slot * ROW + numbers, value, mask=mask)
""",
    ),
]
