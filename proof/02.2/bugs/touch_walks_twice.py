STORY = (
    "One loop for the queue and a second one for the counts reads tidily. A generator is at its end after the "
    "first loop, so the blocks are out of the queue and held by nobody."
)
CONCEPT = "A hit may be free or held, block by block, and it is walked once."
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
        for block in blocks:
            block.ref_cnt += 1
""",
    ),
]
