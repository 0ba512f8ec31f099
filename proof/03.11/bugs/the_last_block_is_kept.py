STORY = "The comparison has an equals sign too many, so the last free block is never given to a copy."
CONCEPT = "All or nothing: one block too few gives None, and nothing shows that a request asked."
EDITS = [
    (
        "> self.num_free_blocks",
        ">= self.num_free_blocks",
    ),
]
