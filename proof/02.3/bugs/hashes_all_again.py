STORY = (
    "The names are made anew at each call and returned, nothing is remembered. Every decode step of a long "
    "prompt hashes the whole prompt: the time per token grows with the length."
)
CONCEPT = "A name is made once: a decode step hashes what is new, not the whole prompt again."
EDITS = [
    ("hashes, size = request.block_hashes, self.block_size", "hashes, size = [], self.block_size"),
]
