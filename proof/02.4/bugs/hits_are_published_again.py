STORY = (
    "The hits are not counted as computed when it comes to names. Blocks that have a name get it once more, "
    "which the pool refuses."
)
CONCEPT = "Shared blocks stand first in the table and are held by both; only new ones are returned."
EDITS = [
    ("start, end = num_computed //", "start, end = request.num_computed_tokens //"),
]
