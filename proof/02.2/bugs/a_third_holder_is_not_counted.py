STORY = "touch() counts up to two holders. With a third one a block is handed out while somebody reads it."
CONCEPT = "A held block that is touched has one holder more, and the queue is not asked."
EDITS = [
    (
        """            block.ref_cnt += 1
""",
        """            block.ref_cnt = min(block.ref_cnt + 1, 2)
""",
    ),
]
