STORY = (
    "A learner remembers the size of a chunk by how far the request is behind. The next one that is as "
    "far behind gets it, whatever is left of the budget."
)
CONCEPT = "Two numbers alone make a chunk: how far the request is behind, and what is left of the budget."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        (
            'chunks = self.__dict__.setdefault("_chunks", {})\n'
            "        return chunks.setdefault(num_new_tokens, min(num_new_tokens, token_budget))"
        ),
    ),
]
