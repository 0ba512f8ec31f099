STORY = "Stranded is taken for more slots than are asked for. When they are exactly as many, they are called free."
CONCEPT = "Slots that no request holds are stranded if they were enough for the refused one, and free if not."
EDITS = [
    (
        "refused <= left",
        "refused < left",
    ),
]
