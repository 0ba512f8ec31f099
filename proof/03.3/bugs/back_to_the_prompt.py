STORY = (
    "A learner keeps the prompt and drops what came after. The counter says that the prompt is computed, and its "
    "blocks are gone."
)
CONCEPT = "The counter goes back to 0; what the request knows, its output included, stays."
EDITS = [
    (
        ("        request.num_computed_tokens = 0\n"),
        ("        request.num_computed_tokens = min(request.num_computed_tokens, request.num_prompt_tokens)\n"),
    ),
]
