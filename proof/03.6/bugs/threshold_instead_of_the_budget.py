STORY = "A learner takes the threshold for the size of the chunk, whatever is left of the budget. The step overflows."
CONCEPT = "In company a chunk is cut by the threshold as well as by the budget."
EDITS = [
    (
        "num_new_tokens = min(num_new_tokens, threshold)",
        "return min(num_new_tokens, threshold)",
    ),
]
