STORY = (
    "A name is made of all tokens up to the end of the block, with no parent: twice the prompt costs four "
    "times as much."
)
CONCEPT = "A name is made of the name before it and of the tokens of its own block, no others."
EDITS = [
    (
        """            token_ids = tuple(request.all_token_ids[i * size : (i + 1) * size])
""",
        """            token_ids = tuple(request.all_token_ids[: (i + 1) * size])
""",
    ),
    (
        """            hashes.append(
                self._hash_block(hashes[-1], token_ids, None)
                if hashes
                else self._hash_block(None, token_ids, request.cache_salt)
            )
""",
        """            hashes.append(self._hash_block(None, token_ids, request.cache_salt))
""",
    ),
]
