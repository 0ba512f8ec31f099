STORY = "A learner fills the new blocks, all of them: those for the tokens to compute, too."
CONCEPT = "It comes back to where it was: the tokens in the CPU pool need no computing."
EDITS = [
    (
        "            behind = self.get_block_ids(request_id)[start : self._num_blocks(num_swapped)]\n",
        "            behind = [block.block_id for block in new_blocks]\n",
    ),
]
