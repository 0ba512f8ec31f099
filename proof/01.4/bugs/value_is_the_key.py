STORY = "The line of the key is copied for the value and one pointer is not changed. Both caches hold keys."
CONCEPT = "A program is one token: it takes the slot, the key and the value of its own row, and nothing else."
EDITS = [
    (
        "tl.load(value_ptr + token * value_stride + numbers, mask=mask)",
        "tl.load(key_ptr + token * key_stride + numbers, mask=mask)",
    ),
]
