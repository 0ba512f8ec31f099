STORY = "Without stretches all is one hole, and no search is needed. A memory of no slots has no hole either."
CONCEPT = "A hole is what lies before, between and after the stretches; where two touch there is none."
EDITS = [
    (
        """        found, start = [], 0
""",
        """        if not self.stretches:
            return [range(self.num_slots)]
        found, start = [], 0
""",
    ),
]
