STORY = "enable_chunked_prefill is not looked at."
CONCEPT = "Without chunked prefill the budget cuts no newcomer: it waits for a step that holds it, and so do others."
EDITS = [
    (
        "self._chunk_size(request, num_computed, token_budget if self.enable_chunked_prefill else self.num_slots)",
        "self._chunk_size(request, num_computed, token_budget)",
    ),
]
