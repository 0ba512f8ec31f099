STORY = (
    "A learner reckons the price of a newcomer without its hits. One whose prefix others hold is refused, "
    "though it needs few blocks."
)
CONCEPT = "In any run a step follows from the two lists, the free blocks and the budget, and from no step before."
EDITS = [
    (
        (
            "            if kv.allocate_slots(request, n, computed_blocks) is None:\n"
            "                break\n"
            "            self._admit"
        ),
        (
            "            if -(-(num_computed + n) // kv.block_size) > kv.num_free_blocks:\n"
            "                break\n"
            "            if kv.allocate_slots(request, n, computed_blocks) is None:\n"
            "                break\n"
            "            self._admit"
        ),
    ),
]
