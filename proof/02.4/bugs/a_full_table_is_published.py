STORY = "All full blocks for which there is a table are published, with tokens that have no slots yet."
CONCEPT = "Tokens that are known and have no slots yet are not published."
EDITS = [
    (
        """            start, end = num_computed // block_size, num_tokens // block_size
""",
        """            start = num_computed // block_size
            end = request.num_tokens // block_size if computed_blocks else num_tokens // block_size
            end = min(end, len(self._tables.get(request.request_id, ())))
""",
    ),
]
