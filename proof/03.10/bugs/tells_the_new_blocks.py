STORY = "A learner fills the new blocks, all of them: those for the tokens to compute, too."
CONCEPT = "It comes back to where it was: the tokens in the CPU pool need no computing."
EDITS = [
    (
        "            block_ids = self.get_block_ids(request_id)[len(computed_blocks) : self._num_blocks(end)]\n",
        "            block_ids = [block.block_id for block in new_blocks]\n",
    ),
]
