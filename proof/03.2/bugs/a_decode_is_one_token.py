STORY = (
    "A learner gives every running request one token, since it decodes. A prompt that was cut goes on one token "
    "at a time."
)
CONCEPT = "Running requests compute first; a newcomer gets what they leave of the budget."
EDITS = [
    (
        "n = self._chunk_size(request, request.num_computed_tokens, token_budget)",
        "n = min(1, token_budget)",
    ),
]
