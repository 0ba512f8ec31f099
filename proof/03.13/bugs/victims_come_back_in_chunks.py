STORY = "The rule is taken for one about prompts: who was preempted comes back in chunks, and before those it would wait for."
CONCEPT = "A hit and a preemption change nothing in it: what is behind is computed in one piece."
EDITS = [
    (
        "token_budget if self.enable_chunked_prefill else self.num_slots)",
        "token_budget if self.enable_chunked_prefill or request.num_preemptions else self.num_slots)",
    ),
]
