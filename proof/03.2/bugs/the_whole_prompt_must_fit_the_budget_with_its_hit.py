STORY = (
    "A learner clamps the whole prompt to the budget and subtracts the hit afterwards. A cached prefix makes the "
    "chunk too small."
)
CONCEPT = "What the cache holds costs no budget."
EDITS = [
    (
        "n = self._clamp_new_tokens(num_missing, token_budget if self.enable_chunked_prefill else num_missing)",
        "n = max(1, self._clamp_new_tokens(request.num_tokens, token_budget) - num_computed)",
    ),
]
