STORY = "A learner takes the threshold for the size of the chunk, whatever is left of the budget. The step overflows."
CONCEPT = "With others in flight the threshold cuts a chunk, and so does the budget."
EDITS = [
    (
        "num_new_tokens = min(num_new_tokens, threshold)",
        "return min(num_new_tokens, threshold)",
    ),
]
