STORY = "A learner cuts at the threshold as at the end of a range. Each chunk is one token short."
CONCEPT = "With others in flight the threshold cuts a chunk, and so does the budget."
EDITS = [
    (
        "num_new_tokens = min(num_new_tokens, threshold)",
        "num_new_tokens = min(num_new_tokens, threshold - 1)",
    ),
]
