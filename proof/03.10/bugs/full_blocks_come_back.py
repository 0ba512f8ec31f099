STORY = "A learner copies in full blocks only; the one that was begun stays in the pool."
CONCEPT = "It comes back to where it was: the tokens in the CPU pool need no computing."
EDITS = [
    (
        "            behind = self.get_block_ids(request_id)[start : self._num_blocks(num_swapped)]\n",
        "            behind = self.get_block_ids(request_id)[start : num_swapped // self.block_size]\n",
    ),
]
