STORY = "The block of the last computed token is copied, full or not. A full one is copied for nothing."
CONCEPT = "A full block is no longer written: it stays shared, and is never copied."
EDITS = [
    (
        "range(request.num_computed_tokens // self.block_size, end)",
        "range(max(request.num_computed_tokens - 1, 0) // self.block_size, end)",
    ),
]
