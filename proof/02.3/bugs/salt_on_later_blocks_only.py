STORY = (
    "Somebody has read that names are chained, and gives the salt to the blocks that have a parent. The first "
    "block of every prompt is shared by all tenants."
)
CONCEPT = "Requests with different salts never share, and those with the same salt do."
EDITS = [
    (
        """            hashes.append(
                self._hash_block(hashes[-1], token_ids, None)
                if hashes
                else self._hash_block(None, token_ids, request.cache_salt)
            )
""",
        """            parent = hashes[-1] if hashes else None
            hashes.append(self._hash_block(parent, token_ids, request.cache_salt if hashes else None))
""",
    ),
]
