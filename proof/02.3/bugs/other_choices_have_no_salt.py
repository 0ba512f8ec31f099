STORY = (
    "The salt is put into the names of the first choice of a prompt only, so the second one is shared with everybody."
)
CONCEPT = "Only tokens and salt are in a name: nothing else about a request is."
EDITS = [
    (
        """self._hash_block(None, token_ids, request.cache_salt)""",
        """self._hash_block(None, token_ids, None if request.choice_index else request.cache_salt)""",
    ),
]
