STORY = "A learner copies everything that is in the pool, also into the blocks that were found."
CONCEPT = "What the prefix cache finds is not copied: only what lies behind it comes from the CPU pool."
EDITS = [
    (
        "            behind = self.get_block_ids(request_id)[start : self._num_blocks(num_swapped)]\n",
        "            behind = self.get_block_ids(request_id)[: self._num_blocks(num_swapped)]\n",
    ),
    (
        "            self._swapping_in[request_id] = self.swap_space.swap_in(request_id, behind, start)\n",
        "            self._swapping_in[request_id] = self.swap_space.swap_in(request_id, behind)\n",
    ),
]
