STORY = (
    "The five numbers come as a plain tuple, in the right order. A reader who asks for .used gets an AttributeError."
)
CONCEPT = "The count is a Usage of whole numbers, and what it was made from stays as it was."
EDITS = [
    (
        """    return Usage(used, reserved, wasted, left if is_stranded else 0, 0 if is_stranded else left)
""",
        """    return (used, reserved, wasted, left if is_stranded else 0, 0 if is_stranded else left)
""",
    ),
]
