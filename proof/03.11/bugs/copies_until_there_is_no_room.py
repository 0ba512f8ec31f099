STORY = "A learner replaces column after column, and gives up at the one for which no block is free."
CONCEPT = "A write into several shared blocks gets all its copies or none: where one has no room, no block is replaced."
EDITS = [
    (
        "            if self.num_blocks_needed(request, num_tokens) > self.num_free_blocks:\n                return None\n            table = self._tables[request.request_id]\n            for i, copy in zip(shared, self.block_pool.get_new_blocks(len(shared)), strict=True):\n",
        "            if self.num_blocks_needed(request, num_tokens) > self.num_free_blocks and len(shared) == 1:\n                return None\n            table = self._tables[request.request_id]\n            for i in shared:\n                if not self.num_free_blocks:\n                    return None\n                (copy,) = self.block_pool.get_new_blocks(1)\n",
    ),
]
