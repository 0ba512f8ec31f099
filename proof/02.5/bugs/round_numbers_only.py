STORY = (
    "All sizes are small powers of two, and all prompts are as long as two or three blocks. Where rounding "
    "goes wrong nobody looks."
)
CONCEPT = "Room is a matter of rounding: try sizes and lengths that do not divide each other."
EDITS = [
    (
        "product([1, 3, 16], [1, 4, 17])",
        "product([1, 2, 4], [2, 4, 20])",
    ),
]
