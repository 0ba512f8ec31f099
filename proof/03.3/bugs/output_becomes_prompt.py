STORY = (
    "An engine appends the output to the prompt, so that all is prefill. The number of generated tokens starts at"
    " 0, and the request gets more than it asked for."
)
CONCEPT = "The counter goes back to 0; what the request knows, its output included, stays."
EDITS = [
    (
        ("        request.num_computed_tokens = 0\n"),
        (
            "        request.num_computed_tokens = 0\n"
            "        request.prompt_token_ids = list(request.all_token_ids)\n"
            "        request.output_token_ids = []\n"
        ),
    ),
]
