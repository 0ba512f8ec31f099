STORY = (
    "The hit is cut by one token where it should be cut to whole blocks. The blocks still hold the last token, "
    "and the counter points into the middle of a shared block."
)
CONCEPT = "The last token is always computed: a hit ends at least one token before the end."
EDITS = [
    ("(request.num_tokens - 1) // self.block_size", "request.num_tokens // self.block_size"),
    (
        "        return hits, len(hits) * self.block_size",
        "        return hits, min(len(hits) * self.block_size, request.num_tokens - 1)",
    ),
]
