STORY = (
    'touch() says "held" where it should say "held once more". The first request that ends takes the block '
    "away from all others."
)
CONCEPT = "A held block that is touched has one holder more, and the queue is not asked."
EDITS = [
    (
        """            block.ref_cnt += 1
""",
        """            block.ref_cnt = 1
""",
    ),
]
