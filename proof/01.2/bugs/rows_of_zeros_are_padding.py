STORY = (
    "A row of zeros is taken for padding, since padded rows used to be zeros. What the slot held before stays there."
)
CONCEPT = "A row is copied, not judged: NaN, infinities and -0.0 arrive as they are, and so does a row of zeros."
EDITS = [
    (
        """            if slot >= 0:
""",
        """            if slot >= 0 and value[token].any():
""",
    ),
]
