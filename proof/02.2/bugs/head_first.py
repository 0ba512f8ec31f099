STORY = (
    "The table is freed from its beginning. Eviction then takes the head of a prompt first, and the rest, "
    "which is still there, can never be found."
)
CONCEPT = "Cached blocks wait at the back, the tail of a table before its head: a prefix is evicted last."
EDITS = [
    ("in reversed(table)", "in table"),
]
