STORY = (
    "Who needs less than it holds gives the rest back. Its later tokens then have no slot, and its stretch cannot grow."
)
CONCEPT = "A stretch cannot grow or move: its holder keeps it, and is refused what goes beyond its end."
EDITS = [
    (
        """        if request_id in self.stretches:
            return num_tokens <= len(self.stretches[request_id])
""",
        """        if request_id in self.stretches:
            stretch = self.stretches[request_id]
            if num_tokens > len(stretch):
                return False
            self.stretches[request_id] = stretch[:num_tokens]
            return True
""",
    ),
]
