STORY = "A learner copies everything that is in the pool, also into the blocks that were found."
CONCEPT = "What the prefix cache finds is not copied: only what lies behind it comes from the CPU pool."
EDITS = [
    (
        (
            "            block_ids = self.get_block_ids(request_id)[len(computed_blocks) : self._num_blocks(end)]\n"
            "            self.connector.load(request, block_ids, len(computed_blocks))\n"
        ),
        (
            "            block_ids = self.get_block_ids(request_id)[: self._num_blocks(end)]\n"
            "            self.connector.load(request, block_ids, 0)\n"
        ),
    ),
]
