STORY = (
    "The cached blocks of a table are gathered by their content. Of two with equal content one is held by "
    "nobody and never free again."
)
CONCEPT = "A table may hold two blocks of equal content: both are let go, and both are free."
EDITS = [
    (
        """        cached: list[KVCacheBlock] = []
""",
        """        cached: dict[Hashable, KVCacheBlock] = {}
""",
    ),
    (
        """                (useless if block.block_hash is None else cached).append(block)
""",
        """                if block.block_hash is None:
                    useless.append(block)
                else:
                    cached[block.block_hash] = block
""",
    ),
    (
        "append_n(cached)",
        "append_n(cached.values())",
    ),
    (
        "from collections.abc import Iterable",
        "from collections.abc import Hashable, Iterable",
    ),
]
