STORY = (
    "All that a request needs is compared with what is free, as if it held nothing. Long requests are "
    "refused their last blocks."
)
CONCEPT = "What a request lacks must be free, not what it has in all; if it is not, nothing changes."
EDITS = [
    ("(needed - held) * self.block_size", "needed * self.block_size"),
]
