STORY = (
    "The test asks for room for every token, and not that there is no more. A block that is held in advance is "
    "a block that somebody else waits for."
)
CONCEPT = "Room is a matter of rounding: try sizes and lengths that do not divide each other."
EDITS = [
    (
        """        assert len(table) == ceil(end / self.size), f"I3: a block for every {self.size} tokens"
""",
        """        assert len(table) * self.size >= end, f"I3: a block for every {self.size} tokens"
""",
    ),
]
