STORY = "Slots are given and no name is published. The engine works, and the prefix cache stays empty for ever."
CONCEPT = "A block is published once, with the slot of its last token, whichever call brought the block."
EDITS = [
    (
        """            start, end = num_computed // block_size, num_tokens // block_size
            if start < end or self._num_published:
                self._cache_blocks(request, start, end)
""",
        """            pass
""",
    ),
]
