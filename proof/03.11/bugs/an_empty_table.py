STORY = (
    "A child of a request that holds nothing gets an empty table. It looks harmless, but a manager with "
    "tables is busy: the cache can never be reset."
)
CONCEPT = "A fork of a request that holds no blocks holds none: it has no table, not even an empty one."
EDITS = [
    (
        (
            "        if table:\n"
            "            self.block_pool.touch(table)\n"
            "            self._tables[child.request_id] = list(table)\n"
        ),
        ("        self.block_pool.touch(table)\n        self._tables[child.request_id] = list(table)\n"),
    ),
]
