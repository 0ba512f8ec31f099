STORY = (
    "Names are kept in a dictionary of the class, by parent, tokens and salt. A manager with sha256 gets the "
    "names of one without."
)
CONCEPT = "A name is made of the name before it and of the tokens of its own block, no others."
EDITS = [
    (
        "    def _block_hashes(",
        """    _made: dict[Hashable, Hashable] = {}

    def _block_hashes(""",
    ),
    (
        """            hashes.append(
                self._hash_block(hashes[-1], token_ids, None)
                if hashes
                else self._hash_block(None, token_ids, request.cache_salt)
            )
""",
        """            key = (hashes[-1], token_ids, None) if hashes else (None, token_ids, request.cache_salt)
            if key not in self._made:
                self._made[key] = self._hash_block(*key)
            hashes.append(self._made[key])
""",
    ),
]
