STORY = "If no new token is asked for, nothing is done, and the hits are not held."
CONCEPT = "A hit may be held without any new token: it is the table then."
EDITS = [
    (
        "        new_blocks: list[KVCacheBlock] = []\n",
        "        new_blocks: list[KVCacheBlock] = []\n        if not num_new_tokens:\n            return new_blocks\n",
    )
]
