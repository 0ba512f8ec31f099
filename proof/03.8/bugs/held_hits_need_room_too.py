STORY = "A learner asks whether the free blocks hold the whole prompt. The blocks of a hit that others hold are there already."
CONCEPT = "A refused head is asked again in every step: what the others compute may be a hit of it, and then it fits."
EDITS = [
    (
        "            if not self._may_admit(request, num_computed + n, computed_blocks):\n",
        "            if -(-(num_computed + n) // kv.block_size) > kv.num_free_blocks:\n",
    )
]
