STORY = "A learner waits in swap_out until there is room in the pool."
CONCEPT = "All or nothing: who does not fit into the CPU pool as a whole is computed again."
EDITS = [
    (
        (
            "        pairs = self.swap_space.swap_out(request_id, self.get_block_ids(request_id)[: self._num_blocks(num_tokens)])\n"
        ),
        (
            "        pairs = self.swap_space.swap_out(request_id, self.get_block_ids(request_id)[: self._num_blocks(num_tokens)])\n"
            "        while pairs is None:\n"
            "            pairs = self.swap_space.swap_out(request_id, self.get_block_ids(request_id)[: self._num_blocks(num_tokens)])\n"
        ),
    ),
]
