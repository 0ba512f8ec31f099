STORY = "Rows are taken to lie side by side. In a QKV matrix the second token's key is the first token's query."
CONCEPT = "Keys and values are parts of wider matrices: the next token begins a stride further on, each by its own."
EDITS = [
    (
        "tl.load(key_ptr + token * key_stride + numbers, mask=mask)",
        "tl.load(key_ptr + token * ROW + numbers, mask=mask)",
    ),
    (
        "tl.load(value_ptr + token * value_stride + numbers, mask=mask)",
        "tl.load(value_ptr + token * ROW + numbers, mask=mask)",
    ),
]
