STORY = "Slots count as stranded only if some request holds others. In an empty memory they are called free."
CONCEPT = "Slots that no request holds are stranded if they were enough for the refused one, and free if not."
EDITS = [
    (
        """refused is not None and refused <= left""",
        """refused is not None and refused <= left and left < memory.num_slots""",
    ),
]
