STORY = "When somebody waits, all that is empty is called stranded, though it would not be enough in one piece either."
CONCEPT = "Slots that no request holds are stranded if they were enough for the refused one, and free if not."
EDITS = [
    (
        """    is_stranded = refused is not None and refused <= left
""",
        """    is_stranded = refused is not None
""",
    ),
]
