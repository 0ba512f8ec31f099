STORY = (
    "None is read as a request for 0 slots, for which there is always enough. A memory where nobody waits "
    "is stranded as a whole."
)
CONCEPT = "Slots that nobody holds are stranded if they were enough for who is refused, and free if not."
EDITS = [
    (
        "refused is not None and refused <= left",
        "(refused or 0) <= left",
    ),
]
