STORY = (
    "To be sure that something is left, the last full block is never looked up. A prompt of two blocks and one "
    "token finds one block where it could find two."
)
CONCEPT = "The last token is always computed: a hit ends at least one token before the end."
EDITS = [
    ("range((request.num_tokens - 1) // self.block_size)", "range(request.num_tokens // self.block_size - 1)"),
]
