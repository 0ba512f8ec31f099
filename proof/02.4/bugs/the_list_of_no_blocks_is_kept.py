STORY = "Whoever gets no new block is given one empty list that all share; a caller that fills it fills it for all."
CONCEPT = "Lists belong to the caller: the hits that are given and the blocks that are returned are no table."
EDITS = [
    (
        """        return new_blocks
""",
        """        return new_blocks or self.__dict__.setdefault("_none", [])
""",
    ),
]
