STORY = "A learner hands the end of the step on and thinks no more of it: the blocks were published when they got their slots."
CONCEPT = "Blocks that were to be filled are not: after a failed step no request may find them in the prefix cache."
EDITS = [
    (
        (
            "        if result is None:\n"
            "            for request, start, end in self._loads.values():\n"
            "                for block_hash in request.block_hashes[start // self.block_size : end // self.block_size]:\n"
            "                    self.block_pool.uncache_hash(block_hash)\n"
        ),
        "",
    ),
]
