STORY = "nano-vllm compares max_num_seqs with the newcomers of the step. The running set grows without bound."
CONCEPT = "max_num_seqs limits how many requests run, not how many are new in a step."
EDITS = [
    (
        "while token_budget > 0 and len(self.running) < self.max_num_seqs:",
        "while token_budget > 0 and len([r for r in output.scheduled_requests if r.num_computed_tokens == 0]) < self.max_num_seqs:",
    ),
]
