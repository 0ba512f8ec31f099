STORY = "A learner withdraws the blocks of those that wait again. An aborted request has published some, too."
CONCEPT = "Blocks that were to be filled are not: after a failed step no request may find them in the prefix cache."
EDITS = [
    (
        "                    self.block_pool.uncache_hash(block_hash)\n",
        (
            "                    if not request.is_finished:\n"
            "                        self.block_pool.uncache_hash(block_hash)\n"
        ),
    ),
]
