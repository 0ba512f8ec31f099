STORY = (
    "The last block of a running request is published before the price is looked at. If the request is "
    "refused, others find what nobody will write."
)
CONCEPT = "A refusal leaves no trace: no order, no count, no name, no table, no counter."
EDITS = [
    (
        """            if num_needed > num_free:
                return None
""",
        """            if num_needed > num_free:
                held = len(self._tables.get(request.request_id, ()))
                if self.enable_prefix_caching and request.num_computed_tokens // block_size < held:
                    self._cache_blocks(request, request.num_computed_tokens // block_size, held)
                return None
""",
    ),
]
