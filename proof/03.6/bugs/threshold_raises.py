STORY = "A learner writes max. Short prompts are said to be longer than they are."
CONCEPT = "With others in flight the threshold cuts a chunk, and so does the budget."
EDITS = [
    (
        "num_new_tokens = min(num_new_tokens, threshold)",
        "num_new_tokens = max(num_new_tokens, threshold)",
    ),
]
