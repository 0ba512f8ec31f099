STORY = "The cached blocks of a table are gathered by their content. Of two with equal content one is held by nobody and never free again."
CONCEPT = "A table may hold two blocks of equal content: both are let go, and both are free."
EDITS = [
    ("        cached: list[KVCacheBlock] = []\n", "        cached: dict[Hashable, KVCacheBlock] = {}\n"),
    (
        "                (useless if block.block_hash is None else cached).append(block)\n",
        "                if block.block_hash is None:\n                    useless.append(block)\n                else:\n                    cached[block.block_hash] = block\n",
    ),
    ("append_n(cached)", "append_n(cached.values())"),
    ("from collections.abc import Iterable", "from collections.abc import Hashable, Iterable"),
]
