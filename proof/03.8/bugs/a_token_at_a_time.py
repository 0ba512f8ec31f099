STORY = (
    "A learner gives every running request one token, the cut one too. The rest of a long prompt takes as many "
    "steps as it has tokens."
)
CONCEPT = "A prompt longer than the budget is cut; no request is admitted or decodes until its end is computed."
BASE = "own_loop"
EDITS = [
    (
        "n = self._chunk_size(request, request.num_computed_tokens, token_budget)",
        "n = min(1, token_budget)",
    ),
]
