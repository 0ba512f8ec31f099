STORY = (
    "The hits are not counted as computed when it comes to names. Blocks that have a name get it once more, "
    "which the pool refuses."
)
CONCEPT = "What was published by others is not published again: only blocks behind the hits are."
EDITS = [
    ("start, end = num_computed //", "start, end = request.num_computed_tokens //"),
]
