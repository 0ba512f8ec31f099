STORY = "What is withdrawn begins behind the hit that was reported at the first admission, though a request that comes back may have hit less."
CONCEPT = "What was promised and not written is not found; what was written, or will be, stays."
EDITS = [
    (
        """table[request.num_computed_tokens // self.block_size :]""",
        """table[max(request.num_computed_tokens, request.num_cached_tokens) // self.block_size :]""",
    ),
]
