STORY = "Of blocks of equal content the one cached last is taken, past get_cached_block()."
CONCEPT = "Several blocks may have one content: the one that get_cached_block() gives is the hit."
EDITS = [
    (
        """                block = self.block_pool.get_cached_block(hashes[i])
""",
        """                block = next(reversed(self.block_pool._cached.get(hashes[i], {}).values()), None)
""",
    ),
]
