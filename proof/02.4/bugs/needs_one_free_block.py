STORY = (
    "When nothing is free the answer is None before anybody has counted. A request that needs no block at all "
    "is thrown out."
)
CONCEPT = "Slots that are there are given even if no block is free."
EDITS = [
    (
        """        new_blocks: list[KVCacheBlock] = []
""",
        """        new_blocks: list[KVCacheBlock] = []
        if not self.num_free_blocks:
            return None
""",
    ),
]
