STORY = (
    "Each chunk writes its blocks into a new table. The request has lost the blocks before, and nobody will "
    "ever give them back."
)
CONCEPT = "A prompt may come in chunks: each goes on where the last one ended."
EDITS = [
    (
        """            self._tables.setdefault(request.request_id, []).extend((*computed_blocks, *new_blocks))
""",
        """            self._tables[request.request_id] = [*computed_blocks, *new_blocks]
""",
    ),
]
