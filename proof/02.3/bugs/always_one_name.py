STORY = (
    "A request gets at least one name, so that there always is a parent for the next one. A prompt that is "
    "shorter than a block has a name for a block that will be filled with something else."
)
CONCEPT = "A block has a name when it is full, and not before."
EDITS = [
    ("request.num_tokens // size", "max(1, request.num_tokens // size)"),
]
