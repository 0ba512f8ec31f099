STORY = (
    "Fresh blocks are taken before the hits are held. When the queue is short they are the hits themselves, "
    "and one block stands twice in the table."
)
CONCEPT = "A hit is still what was found when the request has its slots."
EDITS = [
    (
        """            pool.touch(computed_blocks)
            new_blocks = pool.get_new_blocks(num_needed - (num_free - pool.num_free_blocks))
""",
        """            new_blocks = pool.get_new_blocks(num_needed - sum(block.ref_cnt == 0 for block in computed_blocks))
            pool.touch(computed_blocks)
""",
    ),
]
