STORY = (
    "The search goes on where the last one ended: next fit. What was passed over in front stays empty "
    "until the search comes round."
)
CONCEPT = "A new request gets the front of the first hole that is long enough; each search begins at slot 0."
EDITS = [
    (
        """        for hole in self.holes():
            if len(hole) >= num_tokens:
                self.stretches[request_id] = range(hole.start, hole.start + num_tokens)
                return True
        return False
""",
        """        begin = getattr(self, "begin", 0)
        holes = self.holes()
        for hole in [hole for hole in holes if hole.start >= begin] + [hole for hole in holes if hole.start < begin]:
            if len(hole) >= num_tokens:
                self.stretches[request_id] = range(hole.start, hole.start + num_tokens)
                self.begin = hole.start + num_tokens
                return True
        return False
""",
    ),
]
