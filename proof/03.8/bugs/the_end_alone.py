STORY = "A learner returns when it has gone on with what was cut. The rest of that step's budget is lost."
CONCEPT = "The end of a cut prompt leaves budget: requests that fit whole may join it, but none may pass it."
EDITS = [
    (
        ("        if not output.preempted_req_ids:\n            self._schedule_waiting(output, token_budget)\n"),
        (
            "        if not output.preempted_req_ids and not prefills:\n"
            "            self._schedule_waiting(output, token_budget)\n"
        ),
    ),
]
