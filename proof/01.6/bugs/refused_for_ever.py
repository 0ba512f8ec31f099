STORY = (
    "A request that was refused is remembered with what it asked for, to answer faster the next time. Room that "
    "was given back since is not seen."
)
CONCEPT = "A stretch that was given back is room, also for a request that was refused before."
EDITS = [
    (
        """        for hole in self.holes():
""",
        """        self._refused = getattr(self, '_refused', set())
        if (request_id, num_tokens) in self._refused:
            return False
        for hole in self.holes():
""",
    ),
    (
        """                return True
        return False
""",
        """                return True
        self._refused.add((request_id, num_tokens))
        return False
""",
    ),
]
