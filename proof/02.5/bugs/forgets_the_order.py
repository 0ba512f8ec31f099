STORY = "Everything about hits is tested while there is room. Who has to go when there is none is left to chance."
CONCEPT = "A hit that is too short only costs time, so it goes unnoticed unless a test asks for it."
EDITS = [
    (
        """        engine.kv.block_pool.get_new_blocks(num_taken)
""",
        """        if num_taken:
            break
""",
    ),
]
