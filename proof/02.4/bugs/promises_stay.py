STORY = (
    "free() withdraws nothing, as in vLLM 0.33.0. A request that is preempted in the step that gave it room "
    "comes back, finds its own blocks, and reads what nobody has written."
)
CONCEPT = "What was promised and not written is not found; what was written, or will be, stays."
EDITS = [
    (
        """        table = self._tables.pop(request.request_id, [])
        self._num_published.pop(request.request_id, None)
        self.block_pool.free_blocks(table)
        if not request.is_finished:
            for block in table[request.num_computed_tokens // self.block_size :]:
                self.block_pool.uncache_block(block)
""",
        """        table = self._tables.pop(request.request_id, [])
        self._num_published.pop(request.request_id, None)
        self.block_pool.free_blocks(table)
""",
    ),
]
