STORY = "Slots count as stranded only if some request holds others. In an empty memory they are called free."
CONCEPT = "Slots that nobody holds are stranded if they were enough for who is refused, and free if not."
EDITS = [
    (
        """refused is not None and refused <= left""",
        """refused is not None and refused <= left and left < memory.num_slots""",
    ),
]
