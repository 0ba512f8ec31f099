STORY = (
    "The check compares the copies with what is free, and not the whole price. The table is changed, then "
    "there is no room for the rest."
)
CONCEPT = "All or nothing: one block too few gives None, and nothing shows that a request asked."
EDITS = [
    (
        ("            if self.num_blocks_needed(request, num_tokens) > self.num_free_blocks:\n"),
        ("            if len(shared) > self.num_free_blocks:\n"),
    ),
]
