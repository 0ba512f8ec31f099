STORY = "A name that was not found once is never looked up again."
CONCEPT = "What can be found changes: it is looked up anew each time, for the same request too."
EDITS = [
    (
        "                block = self.block_pool.get_cached_block(hashes[i])\n",
        '                missing = self.__dict__.setdefault("_missing", set())\n                block = None if hashes[i] in missing else self.block_pool.get_cached_block(hashes[i])\n',
    ),
    (
        "                if block is None:\n",
        "                if block is None:\n                    missing.add(hashes[i])\n",
    ),
]
