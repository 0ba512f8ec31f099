STORY = "If no new token is asked for, nothing is done, and the hits are not held."
CONCEPT = "A hit may be held without any new token: it is the table then."
EDITS = [
    (
        """        new_blocks: list[KVCacheBlock] = []
""",
        """        new_blocks: list[KVCacheBlock] = []
        if not num_new_tokens:
            return new_blocks
""",
    ),
]
