STORY = "Stranded is taken for more slots than are asked for. When they are exactly as many, they are called free."
CONCEPT = "Slots that nobody holds are stranded if they were enough for who is refused, and free if not."
EDITS = [
    (
        "refused <= left",
        "refused < left",
    ),
]
