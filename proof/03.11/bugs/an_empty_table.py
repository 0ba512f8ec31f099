STORY = (
    "A child of a request that holds nothing gets an empty table. It looks harmless, but a manager with "
    "tables is busy: the cache can never be reset."
)
CONCEPT = "Who forks from one that holds nothing holds nothing: no table, not even an empty one."
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
