STORY = "A learner tests <= and admits one request too many. Buffers sized for max_num_seqs overflow."
CONCEPT = "max_num_seqs limits how many requests run, not how many are new in a step."
EDITS = [
    (
        "while token_budget > 0 and len(self.running) < self.max_num_seqs:",
        "while token_budget > 0 and len(self.running) <= self.max_num_seqs:",
    ),
]
