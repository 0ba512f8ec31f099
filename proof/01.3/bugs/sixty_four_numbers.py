STORY = "Of a head only the first 64 numbers are multiplied."
CONCEPT = "A score is query times key times the scale that was given; not every model takes 1 / sqrt(head_dim)."
EDITS = [
    (
        """grouped, keys) * scale""",
        """grouped[..., :64], keys[..., :64]) * scale""",
    ),
]
