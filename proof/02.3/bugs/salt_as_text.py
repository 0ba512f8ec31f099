STORY = 'The salt is made a text first, and no salt becomes the salt "None".'
CONCEPT = "Requests with different salts never share, and those with the same salt do."
EDITS = [
    (
        "self._hash_block(None, token_ids, request.cache_salt)",
        "self._hash_block(None, token_ids, str(request.cache_salt))",
    ),
]
