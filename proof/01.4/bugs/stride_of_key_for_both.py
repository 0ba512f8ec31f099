STORY = (
    "One stride is used for both, since they come from one matrix in most models. When they do not, values are "
    "read from elsewhere."
)
CONCEPT = "Keys and values are parts of wider matrices: the next token begins a stride further on, each by its own."
EDITS = [
    (
        "tl.load(value_ptr + token * value_stride + numbers, mask=mask)",
        "tl.load(value_ptr + token * key_stride + numbers, mask=mask)",
    ),
]
