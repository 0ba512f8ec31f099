STORY = (
    "Each call looks for a hole, also for one that holds a stretch already. The entry is replaced, and "
    "the tokens written are left behind."
)
CONCEPT = "A stretch cannot grow or move: its holder keeps it, and is refused what goes beyond its end."
EDITS = [
    (
        """        if request_id in self.stretches:
            return num_tokens <= len(self.stretches[request_id])
""",
        "",
    ),
]
