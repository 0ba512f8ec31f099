STORY = "touch() counts the holder and leaves the block in the queue. It is handed out again while somebody reads it."
CONCEPT = "A prefix hit holds a free block again: it leaves the queue from the middle, with its content."
EDITS = [
    (
        """            if block.ref_cnt == 0:
                self.free_queue.remove(block)
            block.ref_cnt += 1
""",
        """            block.ref_cnt += 1
""",
    ),
]
