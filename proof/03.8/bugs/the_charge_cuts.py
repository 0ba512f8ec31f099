STORY = "With charge_cached_tokens a learner cuts the head to what the budget leaves of its hit. A hit larger than the budget is left with one token a step."
CONCEPT = "A hit is charged once, on admission, and cuts no prompt: alone, a prompt is cut by what it computes."
EDITS = [
    (
        "n = self._chunk_size(request, num_computed, token_budget)",
        "n = self._chunk_size(request, num_computed, max(token_budget - num_charged, 1))",
    )
]
