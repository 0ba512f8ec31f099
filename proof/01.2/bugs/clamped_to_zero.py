STORY = (
    "Negative slots are clamped so that they are in range. Padding overwrites the first slot of block 0, which "
    "belongs to somebody."
)
CONCEPT = "Padding has no place in the cache: -1 is neither the last slot nor the first."
EDITS = [
    (
        """            if slot >= 0:
""",
        """            slot = max(slot, 0)
            if slot >= 0:
""",
    ),
]
