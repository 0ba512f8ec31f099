STORY = (
    "When the slots behind a stretch are nobody's, the stretch is made longer. It works by luck only, "
    "and who begins behind it is in the way."
)
CONCEPT = "A stretch cannot grow or move: its holder keeps it, and is refused what goes beyond its end."
EDITS = [
    (
        """        if request_id in self.stretches:
            return num_tokens <= len(self.stretches[request_id])
""",
        """        if request_id in self.stretches:
            stretch = self.stretches[request_id]
            behind = next((len(hole) for hole in self.holes() if hole.start == stretch.stop), 0)
            if len(stretch) + behind < num_tokens:
                return False
            self.stretches[request_id] = range(stretch.start, stretch.start + max(len(stretch), num_tokens))
            return True
""",
    ),
]
