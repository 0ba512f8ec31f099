STORY = (
    "A learner makes the chunk of a newcomer smaller until it fits. It takes the blocks that those who "
    "run will need in the next step."
)
CONCEPT = "In any run a step follows from the two lists, the free blocks and the budget, and from no step before."
EDITS = [
    (
        " or not self._may_admit(request, num_computed + n, computed_blocks)",
        "",
    ),
    (
        (
            "            if kv.allocate_slots(request, n, computed_blocks) is None:\n"
            "                break\n"
            "            self._admit"
        ),
        (
            "            while n and kv.allocate_slots(request, n, computed_blocks) is None:\n"
            "                n -= 1\n"
            "            if n == 0:\n"
            "                break\n"
            "            self._admit"
        ),
    ),
]
