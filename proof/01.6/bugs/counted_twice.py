STORY = "Stranded slots are nobody's, so they are counted as free, too. The five numbers make more than all slots."
CONCEPT = "Slots that no request holds are stranded if they were enough for the refused one, and free if not."
EDITS = [
    (
        "0 if is_stranded else left)",
        "left)",
    ),
]
