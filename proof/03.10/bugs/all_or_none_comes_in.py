STORY = "A learner asks only whether anything is missing; if so, all of it is copied in, as one transfer."
CONCEPT = "What the prefix cache finds is not copied: only what lies behind it comes from the CPU pool."
EDITS = [
    (
        (
            "            block_ids = self.get_block_ids(request_id)[len(computed_blocks) : self._num_blocks(end)]\n"
            "            self.connector.load(request, block_ids, len(computed_blocks))\n"
        ),
        (
            "            first = len(computed_blocks) if end == start else 0\n"
            "            block_ids = self.get_block_ids(request_id)[first : self._num_blocks(end)]\n"
            "            self.connector.load(request, block_ids, first)\n"
        ),
    ),
]
