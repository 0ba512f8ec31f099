STORY = (
    "The salt is left out if the request has output when its first name is made, as it has if the prompt is "
    "shorter than a block."
)
CONCEPT = "The salt is in the first name, also if the first block ends in the output."
EDITS = [
    (
        "self._hash_block(None, token_ids, request.cache_salt)",
        "self._hash_block(None, token_ids, None if request.output_token_ids else request.cache_salt)",
    ),
]
