STORY = (
    "A learner measures a newcomer by its prompt. A preempted request never computes its own output again, though"
    " it runs."
)
CONCEPT = "A victim that comes back computes all that it knows again, its own output included."
EDITS = [
    (
        "n = self._chunk_size(request, num_computed, token_budget if self.enable_chunked_prefill else self.num_slots)",
        "n = self._clamp_new_tokens(request.num_prompt_tokens - num_computed, token_budget)",
    ),
]
