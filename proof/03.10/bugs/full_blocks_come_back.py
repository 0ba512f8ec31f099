STORY = "A learner copies in full blocks only; the one that was begun stays in the pool."
CONCEPT = "It comes back to where it was: the tokens in the CPU pool need no computing."
EDITS = [
    (
        "            block_ids = self.get_block_ids(request_id)[len(computed_blocks) : self._num_blocks(end)]\n",
        "            block_ids = self.get_block_ids(request_id)[len(computed_blocks) : end // self.block_size]\n",
    ),
]
