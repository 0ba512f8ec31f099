STORY = (
    "The conditions of the mask are joined by `and`. The interpreter takes the last of them, so the window has no "
    "start."
)
CONCEPT = "A window of w keeps the last w positions, the row's own among them."
EDITS = [
    (
        "(offsets < BLOCK_SIZE) & (positions >= begin) & (positions < end)",
        "(positions >= begin) and (offsets < BLOCK_SIZE) & (positions < end)",
    ),
]
