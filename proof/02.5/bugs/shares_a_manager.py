STORY = (
    "Making a manager takes time, so it is made once and kept for all tests. The second test finds the blocks "
    "of the first, and a correct engine is red."
)
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        """class Engine:
""",
        """MANAGERS = {}


class Engine:
""",
    ),
    (
        """        self.kv = lab.KVCacheManager(num_blocks, block_size)
""",
        """        if (num_blocks, block_size) not in MANAGERS:
            MANAGERS[num_blocks, block_size] = lab.KVCacheManager(num_blocks, block_size)
        self.kv = MANAGERS[num_blocks, block_size]
""",
    ),
]
