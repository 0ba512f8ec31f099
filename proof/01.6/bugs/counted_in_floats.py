STORY = "The sums begin at 0.0. A float beyond 2**53 skips whole numbers, and a chart prints 5.0 slots."
CONCEPT = "The count is a Usage of whole numbers, and what it was made from stays as it was."
EDITS = [
    (
        """    used = reserved = wasted = 0
""",
        """    used = reserved = wasted = 0.0
""",
    ),
]
