STORY = (
    "Only the numbers are kept, and a new block object is made when one is taken. Its reference count and its "
    "content are not those of the pool's block."
)
CONCEPT = "What is taken are the very blocks that were put in, and all but the links is as it was."
BASE = "ordered_dict"
EDITS = [
    (
        "        return [self._order.popitem(last=False)[1] for _ in range(num_blocks)]\n",
        "        return [KVCacheBlock(self._order.popitem(last=False)[0]) for _ in range(num_blocks)]\n",
    ),
]
