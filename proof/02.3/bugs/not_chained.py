STORY = (
    "A block is named after its own tokens alone. Keys and values depend on everything before them, so a block "
    "from the middle of another prompt gives wrong answers."
)
CONCEPT = "A name covers everything before the block, as far back as it goes."
EDITS = [
    ("self._hash_block(hashes[-1], token_ids, None)", "self._hash_block(None, token_ids, request.cache_salt)"),
]
