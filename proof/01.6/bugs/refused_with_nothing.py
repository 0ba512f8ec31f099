STORY = "Who is refused is put down as a holder of no slots. The next time it asks, it counts as one that cannot grow."
CONCEPT = "Enough slots in pieces that are too short are no room, and a refused request holds nothing."
EDITS = [
    (
        """        for hole in self.holes():
            if len(hole) >= num_tokens:
                self.stretches[request_id] = range(hole.start, hole.start + num_tokens)
                return True
        return False
""",
        """        for hole in self.holes():
            if len(hole) >= num_tokens:
                self.stretches[request_id] = range(hole.start, hole.start + num_tokens)
                return True
        self.stretches[request_id] = range(0)
        return False
""",
    ),
]
