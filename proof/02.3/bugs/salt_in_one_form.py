STORY = "Salts are brought into one form of Unicode, as names of people are."
CONCEPT = "Requests with different salts never share, and those with the same salt do."
EDITS = [
    ("from collections.abc", "from unicodedata import normalize\nfrom collections.abc"),
    (
        "self._hash_block(None, token_ids, request.cache_salt)",
        'self._hash_block(None, token_ids, request.cache_salt and normalize("NFC", request.cache_salt))',
    ),
]
