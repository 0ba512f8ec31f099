STORY = (
    "The rows are flattened with view(), which needs contiguous memory. The first real model passes slices of "
    "its QKV projection, and it raises."
)
CONCEPT = "Key and value are views into the wider matrix of a projection: their rows need not be neighbours."
EDITS = [
    (
        "key_cache[block_id, offset] = key[token]",
        "key_cache[block_id, offset] = key.view(-1).view(key.shape)[token]",
    ),
]
