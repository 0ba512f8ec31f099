STORY = (
    "An engine reserves for max_tokens, as static batching did. Most of the cache is kept for words that are "
    "never said."
)
CONCEPT = "All that a request knows is reserved, its output with it; what it may still say is not."
EDITS = [
    (
        ("num_tokens = request.num_tokens\n"),
        ("num_tokens = request.num_tokens + request.max_tokens - len(request.output_token_ids)\n"),
    ),
]
