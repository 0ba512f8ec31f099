STORY = (
    "A name asks for the name before it, by a function that calls itself. That is the definition, word for "
    "word, and a prompt of two thousand blocks ends with a RecursionError."
)
CONCEPT = "A prompt may have thousands of blocks: they are walked, not nested."
EDITS = [
    (
        """        for i in range(len(hashes), request.num_tokens // size):
            token_ids = tuple(request.all_token_ids[i * size : (i + 1) * size])
            hashes.append(
                self._hash_block(hashes[-1], token_ids, None)
                if hashes
                else self._hash_block(None, token_ids, request.cache_salt)
            )
        return hashes
""",
        """
        def name(i):
            if i >= len(hashes):
                parent = name(i - 1) if i else None
                token_ids = tuple(request.all_token_ids[i * size : (i + 1) * size])
                hashes.append(self._hash_block(parent, token_ids, None if i else request.cache_salt))
            return hashes[i]

        if request.num_tokens >= size:
            name(request.num_tokens // size - 1)
        return hashes
""",
    ),
]
