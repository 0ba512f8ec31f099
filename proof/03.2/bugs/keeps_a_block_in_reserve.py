STORY = (
    "A learner leaves a block free for those that run when somebody is admitted. That is the watermark, "
    "which is off here."
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
            "            if self.running and kv.num_blocks_needed(request, num_computed + n, computed_blocks) >= kv.num_free_blocks:\n"
            "                break\n"
            "            if kv.allocate_slots(request, n, computed_blocks) is None:\n"
            "                break\n"
            "            self._admit"
        ),
    ),
]
