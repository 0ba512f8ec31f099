STORY = (
    "Holes are remembered for a set of stretches, in one dictionary for all memories. A longer memory gets those "
    "of a shorter one."
)
CONCEPT = "Holes follow from the stretches that are there now: two memories, or one that has changed."
EDITS = [
    (
        "class ContiguousMemory(",
        """_holes: dict = {}


class ContiguousMemory(""",
    ),
    (
        """        return [hole for hole in (*found, range(start, self.num_slots)) if hole]
""",
        """        key = tuple(self.stretches.items())
        return _holes.setdefault(key, [hole for hole in (*found, range(start, self.num_slots)) if hole])
""",
    ),
]
