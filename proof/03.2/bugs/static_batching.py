STORY = "A learner waits until the batch has ended before the next one begins. The places of short answers stay empty."
CONCEPT = "A place that becomes free is taken in the next step; no request waits for the whole batch to end."
EDITS = [
    (
        "while token_budget > 0 and len(self.running) < self.max_num_seqs:",
        (
            "if self.running:\n"
            "            return\n"
            "        while token_budget > 0 and len(self.running) < self.max_num_seqs:"
        ),
    ),
]
