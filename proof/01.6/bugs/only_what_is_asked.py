STORY = (
    "As many slots as were asked for are called stranded, and the rest free. But all pieces are too short "
    "for who waits."
)
CONCEPT = "Slots that no request holds are stranded if they were enough for the refused one, and free if not."
EDITS = [
    (
        """    is_stranded = refused is not None and refused <= left
    return Usage(used, reserved, wasted, left if is_stranded else 0, 0 if is_stranded else left)
""",
        """    stranded = refused if refused is not None and refused <= left else 0
    return Usage(used, reserved, wasted, stranded, left - stranded)
""",
    ),
]
