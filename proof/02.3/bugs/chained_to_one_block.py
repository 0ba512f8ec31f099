STORY = (
    "The name covers the block and the one before it, which looks like a chain. Two prompts that differ "
    "earlier share from the third block on."
)
CONCEPT = "A name covers everything before the block, as far back as it goes."
EDITS = [
    (
        "self._hash_block(hashes[-1], token_ids, None)",
        """self._hash_block(
                    self._hash_block(None, tuple(request.all_token_ids[(i - 1) * size : i * size]), request.cache_salt),
                    token_ids,
                    None,
                )""",
    ),
]
