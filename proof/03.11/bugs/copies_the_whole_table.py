STORY = "Every shared block is copied with the first token. The memory that the fork has saved is spent at once."
CONCEPT = "A full block is no longer written: it stays shared, and is never copied."
EDITS = [
    (
        "range(request.num_computed_tokens // self.block_size, end)",
        "range(end)",
    ),
]
