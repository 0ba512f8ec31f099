STORY = "A learner tests the places with <=. One more runs than the engine has room for."
CONCEPT = "max_num_seqs limits the running requests, not the new ones of a step."
EDITS = [
    (
        "len(self.running) < self.max_num_seqs",
        "len(self.running) <= self.max_num_seqs",
    ),
]
