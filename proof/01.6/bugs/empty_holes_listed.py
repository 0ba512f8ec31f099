STORY = (
    "Between two stretches there is always a hole, the learner believes. Where they touch it is empty and "
    "is listed all the same."
)
CONCEPT = "A hole is what lies before, between and after the stretches; where two touch there is none."
EDITS = [
    (
        """        return [hole for hole in (*found, range(start, self.num_slots)) if hole]
""",
        """        return [*found, range(start, self.num_slots)]
""",
    ),
]
