STORY = "A learner lets the counter point at the last token. The request comes back as a decode without a cache."
CONCEPT = "The counter goes back to 0; what the request knows, its output included, stays."
EDITS = [
    (
        ("        request.num_computed_tokens = 0\n"),
        ("        request.num_computed_tokens = request.num_tokens - 1\n"),
    ),
]
