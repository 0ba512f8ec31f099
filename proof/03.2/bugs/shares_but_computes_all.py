STORY = (
    "A learner passes the cached blocks and schedules the whole prompt all the same. It computes more tokens than"
    " it knows."
)
CONCEPT = "A prefix hit is a head start: only what is missing is computed, the rest of the table is shared."
EDITS = [
    (
        "n = self._chunk_size(request, num_computed, token_budget if self.enable_chunked_prefill else self.num_slots)",
        "n = self._clamp_new_tokens(request.num_tokens, token_budget)",
    ),
]
