STORY = "The blocks of a prefix hit are held before the inherited method is asked, which holds them once more. They are never free again."
CONCEPT = "After any forks, writes and frees each request reads its own past, at the price that was computed."
EDITS = [
    (
        "        return super().allocate_slots(request, num_new_tokens, computed_blocks)\n",
        "        if computed_blocks and super().num_blocks_needed(request, len(computed_blocks) * self.block_size + num_new_tokens, computed_blocks) <= self.num_free_blocks:\n            self.block_pool.touch([block for block in computed_blocks if block.ref_cnt])\n        return super().allocate_slots(request, num_new_tokens, computed_blocks)\n",
    )
]
