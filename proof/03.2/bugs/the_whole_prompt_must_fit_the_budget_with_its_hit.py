STORY = (
    "A learner clamps the whole prompt to the budget and subtracts the hit afterwards. A cached prefix makes the "
    "chunk too small."
)
CONCEPT = "What the cache holds costs no budget."
EDITS = [
    (
        "n = self._chunk_size(request, num_computed, token_budget if self.enable_chunked_prefill else self.num_slots)",
        "n = max(1, self._clamp_new_tokens(request.num_tokens, token_budget) - num_computed)",
    ),
]
