STORY = (
    "A learner halves the chunks once max_num_seqs requests run. A lone long prompt takes twice the "
    "steps where one request may run."
)
CONCEPT = "Two numbers alone make a chunk: how far the request is behind, and what is left of the budget."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        (
            "most = self.max_num_batched_tokens if len(self.running) < self.max_num_seqs else "
            "self.max_num_batched_tokens // 2\n"
            "        return min(num_new_tokens, token_budget, max(1, most))"
        ),
    ),
]
