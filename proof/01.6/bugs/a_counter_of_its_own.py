STORY = (
    "Blocks that are taken are counted in an attribute, which free() knows nothing of. After some requests the "
    "memory is full for ever."
)
CONCEPT = "A release is room for the next one, though allocate() is not told of it."
EDITS = [
    (
        "        held = self.num_blocks.get(request_id, 0)\n",
        """        held = self.num_blocks.get(request_id, 0)
        self.num_taken = getattr(self, "num_taken", sum(self.num_blocks.values()))
""",
    ),
    ("self.num_slots - sum(self.num_blocks.values()) * ", "self.num_slots - self.num_taken * "),
    (
        "        self.num_blocks[request_id] = max(held, needed)\n",
        """        self.num_taken += max(needed - held, 0)
        self.num_blocks[request_id] = max(held, needed)
""",
    ),
]
