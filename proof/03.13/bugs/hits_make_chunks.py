STORY = "Who has a hit is past its beginning, so the rest may be cut: the rule is asked for whole prompts alone."
CONCEPT = "A hit and a preemption change nothing in it: what is behind is computed in one piece."
EDITS = [
    (
        "token_budget if self.enable_chunked_prefill else self.num_slots)",
        "token_budget if self.enable_chunked_prefill or num_computed else self.num_slots)",
    ),
]
