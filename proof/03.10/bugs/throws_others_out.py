STORY = "A learner makes room: the one that has been in the pool for longest is thrown out for the newcomer."
CONCEPT = "All or nothing: who does not fit into the CPU pool as a whole is computed again."
EDITS = [
    (
        (
            "        pairs = self.swap_space.swap_out(request_id, self.get_block_ids(request_id)[: self._num_blocks(num_tokens)])\n"
        ),
        (
            "        table = self.get_block_ids(request_id)[: self._num_blocks(num_tokens)]\n"
            "        while len(table) > self.swap_space.num_free_blocks and self._swapped:\n"
            "            self._forget(next(iter(self._swapped)))\n"
            "        pairs = self.swap_space.swap_out(request_id, table)\n"
        ),
    ),
]
