STORY = "The child gets the blocks in which something is computed. Those that the parent was given ahead are not in its table."
CONCEPT = "Several tokens may go into several shared blocks: each that is written is replaced, the others are not."
EDITS = [
    (
        "            self._tables[child.request_id] = list(table)\n",
        "            self._tables[child.request_id] = list(table)\n            while len(self._tables[child.request_id]) > max(1, -(-parent.num_computed_tokens // self.block_size)) and parent.num_computed_tokens:\n                self.block_pool.free_blocks([self._tables[child.request_id].pop()])\n",
    )
]
