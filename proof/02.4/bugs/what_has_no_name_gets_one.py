STORY = "Every full block of the table without a name is published, also one whose name was withdrawn because nobody writes it."
CONCEPT = "A block whose name was withdrawn gets none again: the request that shares it does not write it."
EDITS = [
    (
        "                self._cache_blocks(request, start, end)",
        "                hashes = self._block_hashes(request)\n                for block, name in zip(self._tables[request.request_id][:end], hashes):\n                    if block.block_hash is None:\n                        self.block_pool.cache_block(block, name)",
    )
]
