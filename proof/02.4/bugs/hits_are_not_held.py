STORY = (
    "The hits are put into the table and nobody counts the new holder. When the first request ends, its blocks "
    "are handed to a third one while the second reads them."
)
CONCEPT = "Shared blocks stand first in the table and are held by both; only new ones are returned."
EDITS = [
    (
        """            pool.touch(computed_blocks)
""",
        "",
    ),
    (
        """            new_blocks = pool.get_new_blocks(num_needed - (num_free - pool.num_free_blocks))
""",
        """            new_blocks = pool.get_new_blocks(num_needed - sum(block.ref_cnt == 0 for block in computed_blocks))
""",
    ),
]
