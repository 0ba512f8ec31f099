STORY = (
    "The holes are kept until another id comes or goes. A request that left and came back elsewhere is still where"
    " it was."
)
CONCEPT = "Holes follow from the stretches that are there now: two memories, or one that has changed."
EDITS = [
    (
        """        found, start = [], 0
""",
        """        if getattr(self, '_ids', None) == set(self.stretches):
            return self._holes
        found, start = [], 0
""",
    ),
    (
        """        return [hole for hole in (*found, range(start, self.num_slots)) if hole]
""",
        """        self._ids = set(self.stretches)
        self._holes = [hole for hole in (*found, range(start, self.num_slots)) if hole]
        return self._holes
""",
    ),
]
