STORY = "A hit that is free is moved to the back of the queue, as a cache does that has its own order of use."
CONCEPT = "To look changes nothing: a request that is not admitted after all has taken nothing."
EDITS = [
    (
        """                hits.append(block)
""",
        """                hits.append(block)
                if block.ref_cnt == 0:
                    self.block_pool.free_queue.remove(block)
                    self.block_pool.free_queue.append_n([block])
""",
    ),
]
