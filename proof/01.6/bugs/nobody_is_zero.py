STORY = (
    "None is read as a request for 0 slots, for which there is always enough. A memory where nobody waits "
    "is stranded as a whole."
)
CONCEPT = "Slots that no request holds are stranded if they were enough for the refused one, and free if not."
EDITS = [
    (
        "refused is not None and refused <= left",
        "(refused or 0) <= left",
    ),
]
