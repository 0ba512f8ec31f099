STORY = (
    "Free slots are added up, as if they could be used together. The stretch begins in a hole and goes on "
    "over what another request holds."
)
CONCEPT = "Enough slots in pieces that are too short are no room, and a refused request holds nothing."
EDITS = [
    (
        """        for hole in self.holes():
            if len(hole) >= num_tokens:
                self.stretches[request_id] = range(hole.start, hole.start + num_tokens)
                return True
        return False
""",
        """        holes = self.holes()
        if sum(len(hole) for hole in holes) < num_tokens:
            return False
        hole = next((hole for hole in holes if len(hole) >= num_tokens), holes[0])
        self.stretches[request_id] = range(hole.start, hole.start + num_tokens)
        return True
""",
    ),
]
