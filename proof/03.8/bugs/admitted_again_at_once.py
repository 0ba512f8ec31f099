STORY = (
    "A learner admits after a preemption, too. A cut prompt that gave way comes back in the same step, finds no "
    "block for its next chunk in the step after, and so on: nobody else ever gets a step."
)
CONCEPT = (
    "A cut prompt that finds no block is preempted, and the running requests decode; it does not come back at once."
)
EDITS = [
    (
        ("        if not output.preempted_req_ids:\n            self._schedule_waiting(output, token_budget)\n"),
        "        self._schedule_waiting(output, token_budget)\n",
    ),
]
