STORY = (
    "A touched block is treated like a fresh one and loses its content. The second request with a prompt gets "
    "a hit, the third one does not."
)
CONCEPT = "A prefix hit holds a free block again: it leaves the queue from the middle, with its content."
EDITS = [
    (
        """        for block in blocks:
            if block.ref_cnt == 0:
                self.free_queue.remove(block)
            block.ref_cnt += 1
""",
        """        for block in blocks:
            if block.ref_cnt == 0:
                self.free_queue.remove(block)
                self.uncache_block(block)
            block.ref_cnt += 1
""",
    ),
]
