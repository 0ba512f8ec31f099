STORY = (
    "A learner cuts the prompt into pieces of the threshold and takes the odd piece first. The chunks are not vLLM's."
)
CONCEPT = "With others in flight the threshold cuts a chunk, and so does the budget."
EDITS = [
    (
        "num_new_tokens = min(num_new_tokens, threshold)",
        "num_new_tokens = num_new_tokens % threshold or threshold",
    ),
]
