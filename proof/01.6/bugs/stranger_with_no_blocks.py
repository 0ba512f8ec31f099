STORY = "The entry is made before the room is looked for. A request that was refused stays in the table with 0 blocks."
CONCEPT = "What a request lacks must be free, not what it has in all; if it is not, nothing changes."
EDITS = [
    (
        """        held = self.num_blocks.get(request_id, 0)
""",
        """        held = self.num_blocks.setdefault(request_id, 0)
""",
    ),
]
