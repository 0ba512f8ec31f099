STORY = (
    "Whether the hit is free is asked of its first block only. A request that shares a held head and a free "
    "tail leaves the tail in the queue."
)
CONCEPT = "A hit may be free or held, block by block, and it is walked once."
EDITS = [
    (
        """        for block in blocks:
            if block.ref_cnt == 0:
                self.free_queue.remove(block)
            block.ref_cnt += 1
""",
        """        blocks = list(blocks)
        if blocks and blocks[0].ref_cnt == 0:
            for block in blocks:
                self.free_queue.remove(block)
        for block in blocks:
            block.ref_cnt += 1
""",
    ),
]
