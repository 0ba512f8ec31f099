STORY = "Of the salt the first 64 letters are taken, as a column of a table would hold them."
CONCEPT = "Requests with different salts never share, and those with the same salt do."
EDITS = [
    (
        "self._hash_block(None, token_ids, request.cache_salt)",
        "self._hash_block(None, token_ids, request.cache_salt and request.cache_salt[:64])",
    )
]
