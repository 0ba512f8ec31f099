STORY = (
    "Blocks are taken first, and whether they were enough comes out afterwards. A refused request has evicted "
    "old content and keeps what it got."
)
CONCEPT = "What fits exactly is given; one block too few gives None, and nothing has changed."
EDITS = [
    (
        """            if num_needed > num_free:
                return None
""",
        """            if num_needed > num_free:
                pool.free_blocks(pool.get_new_blocks(num_free))
                return None
""",
    ),
]
