STORY = (
    "The comparison has an equals sign too many, so the last free block is never given. A request that needs "
    "all of them waits for ever in an empty engine."
)
CONCEPT = "What fits exactly is given; one block too few gives None, and nothing has changed."
EDITS = [
    ("if num_needed > num_free", "if num_needed >= num_free"),
]
