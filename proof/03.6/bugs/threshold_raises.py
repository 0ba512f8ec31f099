STORY = "A learner writes max. Short prompts are said to be longer than they are."
CONCEPT = "In company a chunk is cut by the threshold as well as by the budget."
EDITS = [
    (
        "num_new_tokens = min(num_new_tokens, threshold)",
        "num_new_tokens = max(num_new_tokens, threshold)",
    ),
]
