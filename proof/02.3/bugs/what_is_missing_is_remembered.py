STORY = "A name that was not found once is never looked up again."
CONCEPT = "What can be found changes: it is looked up again each time, for the same request too."
EDITS = [
    (
        """                block = self.block_pool.get_cached_block(hashes[i])
""",
        """                missing = self.__dict__.setdefault("_missing", set())
                block = None if hashes[i] in missing else self.block_pool.get_cached_block(hashes[i])
""",
    ),
    (
        """                if block is None:
""",
        """                if block is None:
                    missing.add(hashes[i])
""",
    ),
]
