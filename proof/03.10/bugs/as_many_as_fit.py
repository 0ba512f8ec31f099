STORY = "A learner swaps out what fits and is ready to compute the rest. The law says all or nothing."
CONCEPT = "All or nothing: who does not fit into the CPU pool as a whole is computed again."
EDITS = [
    (
        (
            "        pairs = self.swap_space.swap_out(request_id, self.get_block_ids(request_id)[: self._num_blocks(num_tokens)])\n"
        ),
        (
            "        table = self.get_block_ids(request_id)[: self._num_blocks(num_tokens)]\n"
            "        num_fit = min(len(table), self.swap_space.num_free_blocks)\n"
            "        num_tokens = min(num_tokens, num_fit * self.block_size)\n"
            "        pairs = self.swap_space.swap_out(request_id, table[:num_fit]) if num_fit else None\n"
        ),
    ),
]
