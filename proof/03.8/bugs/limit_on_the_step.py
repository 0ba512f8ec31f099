STORY = "nano-vllm compares max_num_seqs with the newcomers of the step. The running set grows without bound."
CONCEPT = "max_num_seqs limits the running requests, not the new ones of a step."
EDITS = [
    (
        "len(self.running) < self.max_num_seqs",
        "len(output.scheduled_requests) < self.max_num_seqs",
    ),
]
