STORY = "A victim that was cut goes on up to the end of its prompt; its old output is a chunk of its own."
CONCEPT = "A request that comes back may be cut, too: even past its prompt it is in prefill until it has caught up."
EDITS = [
    (
        "        token_budget = self._schedule_running(prefills, output, self.max_num_batched_tokens)\n",
        "        token_budget = self.max_num_batched_tokens\n        for request in prefills:\n            rest = request.num_prompt_tokens - request.num_computed_tokens\n            most = min(rest, token_budget) if rest > 0 else token_budget\n            token_budget += self._schedule_running([request], output, most) - most\n",
    )
]
