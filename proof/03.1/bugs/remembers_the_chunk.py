STORY = (
    "A learner remembers the size of a chunk by how far the request is behind. The next one that is as "
    "far behind gets it, whatever is left of the budget."
)
CONCEPT = "A chunk follows from two numbers: not from those who wait, from the free blocks or from a call before."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        (
            'chunks = self.__dict__.setdefault("_chunks", {})\n'
            "        return chunks.setdefault(num_new_tokens, min(num_new_tokens, token_budget))"
        ),
    ),
]
