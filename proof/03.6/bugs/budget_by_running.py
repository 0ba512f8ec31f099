STORY = "A learner cuts the chunk to an equal share of the budget when a threshold is set."
CONCEPT = "In any run both rules answer from the state of the moment, whatever they answered before."
EDITS = [
    (
        "num_new_tokens = min(num_new_tokens, threshold)",
        ("num_new_tokens = min(num_new_tokens, threshold, max(2, self.max_num_batched_tokens // len(self._requests)))"),
    ),
]
