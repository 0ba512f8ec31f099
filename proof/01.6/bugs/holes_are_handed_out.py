STORY = "The holes are kept until a stretch changes, and the list that is kept is handed out. The caller changes it."
CONCEPT = "Holes follow from the stretches that are there now: two memories, or one that has changed."
EDITS = [
    (
        """        return [hole for hole in (*found, range(start, self.num_slots)) if hole]
""",
        """        key = (self.num_slots, *self.stretches.values())
        if getattr(self, "_key", None) != key:
            self._key, self._holes = key, [hole for hole in (*found, range(start, self.num_slots)) if hole]
        return self._holes
""",
    ),
]
