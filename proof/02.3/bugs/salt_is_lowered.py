STORY = "Capital letters in the salt do not count, so two tenants share."
CONCEPT = "Requests with different salts never share, and those with the same salt do."
EDITS = [
    (
        "self._hash_block(None, token_ids, request.cache_salt)",
        "self._hash_block(None, token_ids, request.cache_salt and request.cache_salt.lower())",
    ),
]
