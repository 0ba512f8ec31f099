STORY = "A learner asks beforehand whether there is room, with < instead of <=."
CONCEPT = "All or nothing: who does not fit into the CPU pool as a whole is computed again."
EDITS = [
    (
        (
            "        pairs = self.swap_space.swap_out(request_id, self.get_block_ids(request_id)[: self._num_blocks(num_tokens)])\n"
        ),
        (
            "        pairs = None\n"
            "        if self._num_blocks(num_tokens) < self.swap_space.num_free_blocks:\n"
            "            pairs = self.swap_space.swap_out(request_id, self.get_block_ids(request_id)[: self._num_blocks(num_tokens)])\n"
        ),
    ),
]
