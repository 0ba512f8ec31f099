STORY = "A learner cuts at the threshold as at the end of a range. Each chunk is one token short."
CONCEPT = "In company a chunk is cut by the threshold as well as by the budget."
EDITS = [
    (
        "num_new_tokens = min(num_new_tokens, threshold)",
        "num_new_tokens = min(num_new_tokens, threshold - 1)",
    ),
]
