STORY = "A learner frees a finished request in the pool and forgets that it may have blocks on the device."
CONCEPT = "A request that has ended holds no block, neither on the device nor in main memory."
EDITS = [
    (
        (
            "        if request.is_finished:\n"
            "            self.connector.request_finished(request)\n"
            '        elif num_tokens and (self.preemption_mode == "swap" or self.cost.swap_is_cheaper(num_tokens)):\n'
            "            self.connector.save(request, self.get_block_ids(request.request_id)[: self._num_blocks(num_tokens)])\n"
            "        super().free(request)\n"
        ),
        (
            "        if request.is_finished and self.connector.get_num_new_matched_tokens(request, 0).num_tokens:\n"
            "            self.connector.request_finished(request)\n"
            "            return\n"
            '        if num_tokens and not request.is_finished and (self.preemption_mode == "swap" or self.cost.swap_is_cheaper(num_tokens)):\n'
            "            self.connector.save(request, self.get_block_ids(request.request_id)[: self._num_blocks(num_tokens)])\n"
            "        super().free(request)\n"
        ),
    ),
]
