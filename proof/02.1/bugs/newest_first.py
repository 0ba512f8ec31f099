STORY = (
    "A list with append and pop is the shortest queue there is, but it is a stack. The block that was freed "
    "last, the best one to keep, is evicted first."
)
CONCEPT = "Blocks are taken from the front, in the order in which they came."
BASE = "ordered_dict"
EDITS = [
    (
        "        return [self._order.popitem(last=False)[1] for _ in range(num_blocks)]\n",
        "        return [self._order.popitem()[1] for _ in range(num_blocks)]\n",
    ),
]
