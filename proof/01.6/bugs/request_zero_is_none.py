STORY = "The id is tested as if 0 were no request. Request 0 asks for a second stretch each time."
CONCEPT = "A stretch cannot grow or move: its holder keeps it, and is refused what goes beyond its end."
EDITS = [
    (
        """        if request_id in self.stretches:
""",
        """        if request_id and request_id in self.stretches:
""",
    ),
]
