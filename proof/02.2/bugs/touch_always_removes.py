STORY = (
    "Every touched block is taken out of the queue, held or not. As soon as two requests run with the same "
    "prompt the engine stops with an error."
)
CONCEPT = "A held block that is touched has one holder more, and the queue is not asked."
EDITS = [
    (
        """            if block.ref_cnt == 0:
                self.free_queue.remove(block)
""",
        """            self.free_queue.remove(block)
""",
    ),
]
