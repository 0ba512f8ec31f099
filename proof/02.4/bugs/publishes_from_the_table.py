STORY = (
    "The blocks to publish are counted from the length of the table before the call. A block that was there "
    "but not full falls between two calls."
)
CONCEPT = "A block is published once, with the slot of its last token, whichever call brought the block."
EDITS = [
    (
        "start, end = num_computed // block_size, num_tokens // block_size",
        """end = num_tokens // block_size
            start = max(num_computed // block_size, len(self._tables[request.request_id]) - len(new_blocks))""",
    ),
]
