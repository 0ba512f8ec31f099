STORY = "At most eight blocks are published in one call. A long prompt is found up to there."
CONCEPT = "A long prompt gets all its slots at once, and all its blocks are published."
EDITS = [
    (
        """            start, end = num_computed // block_size, num_tokens // block_size
""",
        """            start, end = num_computed // block_size, num_tokens // block_size
            end = min(end, start + 8)
""",
    ),
]
