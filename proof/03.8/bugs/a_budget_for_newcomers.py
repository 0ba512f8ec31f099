STORY = (
    "A learner gives admission a fresh budget. Beside the end of a cut prompt the step is larger than "
    "max_num_batched_tokens."
)
CONCEPT = "The end of a cut prompt leaves budget: requests that fit whole may join it, but none may pass it."
EDITS = [
    (
        "self._schedule_waiting(output, token_budget)",
        "self._schedule_waiting(output, self.max_num_batched_tokens)",
    ),
]
