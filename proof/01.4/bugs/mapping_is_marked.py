STORY = "A token that is stored is marked in the mapping as done. The next layer takes it for padding."
CONCEPT = "Keys, values and slots are read, not changed: the next layer has the same slots."
EDITS = [
    (
        """        tl.store(value_cache_ptr + slot * ROW + numbers, value, mask=mask)
""",
        """        tl.store(value_cache_ptr + slot * ROW + numbers, value, mask=mask)
        tl.store(slot_mapping_ptr + token, -1)
""",
    ),
]
