STORY = "When the last block is full, its name is taken off the remembered list, and made again each time."
CONCEPT = "A name is made once: a decode step hashes what is new, not the whole prompt again."
EDITS = [
    (
        """            hashes = self._block_hashes(request)
""",
        """            hashes = self._block_hashes(request)
            if len(hashes) * self.block_size == request.num_tokens:
                hashes.pop()
""",
    ),
]
