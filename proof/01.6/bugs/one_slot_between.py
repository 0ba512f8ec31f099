STORY = (
    "range.stop is read as the last slot of a stretch, so the hole behind it begins one slot late. Each "
    "request costs a slot."
)
CONCEPT = "A hole is what lies before, between and after the stretches; where two touch there is none."
EDITS = [
    (
        """            start = stretch.stop
""",
        """            start = stretch.stop + 1
""",
    ),
]
