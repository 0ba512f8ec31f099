STORY = "A learner resets the request as if it were new. Words that the user has seen are gone, and are said again."
CONCEPT = "The counter goes back to 0; what the request knows, its output included, stays."
EDITS = [
    (
        ("        request.num_computed_tokens = 0\n"),
        (
            "        request.num_computed_tokens = 0\n"
            "        request.output_token_ids.clear()\n"
            "        request.all_token_ids = list(request.prompt_token_ids)\n"
        ),
    ),
]
