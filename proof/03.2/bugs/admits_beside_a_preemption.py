STORY = (
    "A learner admits in every step. The victim comes back at once with the block that is left, and the two push "
    "each other out."
)
CONCEPT = "A step that had to preempt admits no request; in the next step the victim may come back."
EDITS = [
    (
        ("        if not output.preempted_req_ids:\n            self._schedule_waiting(output, token_budget)\n"),
        ("        self._schedule_waiting(output, token_budget)\n"),
    ),
]
