STORY = (
    "A learner cuts the prompt into pieces of the threshold and takes the odd piece first. The chunks are not vLLM's."
)
CONCEPT = "In company a chunk is cut by the threshold as well as by the budget."
EDITS = [
    (
        "num_new_tokens = min(num_new_tokens, threshold)",
        "num_new_tokens = num_new_tokens % threshold or threshold",
    ),
]
