STORY = "remove() takes a block without neighbours for one that is not in, so the only block of a queue cannot leave."
CONCEPT = "A block leaves from wherever it stands, and no other block moves."
EDITS = [
    (
        """        if before is None or after is None:
""",
        """        if before is None or after is None or (before is self._head and after is self._tail):
""",
    ),
]
