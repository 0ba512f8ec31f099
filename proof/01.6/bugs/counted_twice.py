STORY = "Stranded slots are nobody's, so they are counted as free, too. The five numbers make more than all slots."
CONCEPT = "Slots that nobody holds are stranded if they were enough for who is refused, and free if not."
EDITS = [
    (
        "0 if is_stranded else left)",
        "left)",
    ),
]
