STORY = (
    "A block is thought to be free, held or shared, so the count stops at two. When three requests have the "
    "same prompt, the second one that ends takes it from the third."
)
CONCEPT = "A held block that is touched has one holder more, and the queue is not asked."
EDITS = [
    (
        """            block.ref_cnt += 1
""",
        """            block.ref_cnt = min(block.ref_cnt + 1, 2)
""",
    ),
]
