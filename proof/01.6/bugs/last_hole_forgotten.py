STORY = "A hole is closed by the stretch behind it. Behind the last stretch there is none, so what lies there is lost."
CONCEPT = "A hole is what lies before, between and after the stretches; where two touch there is none."
EDITS = [
    (
        """        return [hole for hole in (*found, range(start, self.num_slots)) if hole]
""",
        """        return [hole for hole in found if hole]
""",
    ),
]
