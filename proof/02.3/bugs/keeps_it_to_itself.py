STORY = (
    "The names are kept in a place of the manager's own, and request.block_hashes stays empty. What later "
    "withdraws a failed step by the request's names withdraws nothing."
)
CONCEPT = "A name is made once: a decode step hashes what is new, not the whole prompt again."
EDITS = [
    (
        """        hashes, size = request.block_hashes, self.block_size
""",
        """        hashes, size = vars(self).setdefault("_names", {}).setdefault(request.request_id, []), self.block_size
""",
    ),
]
