STORY = (
    "Only full blocks among the new ones are published. One that began in an earlier chunk and is filled now "
    "is never found, nor is anything behind it."
)
CONCEPT = "A block is published once, with the slot of its last token, whichever call brought the block."
EDITS = [
    (
        """            if start < end or self._num_published:
                self._cache_blocks(request, start, end)
""",
        """            for i in range(start, end):
                if self._tables[request.request_id][i] in new_blocks:
                    self._cache_blocks(request, i, i + 1)
""",
    ),
]
