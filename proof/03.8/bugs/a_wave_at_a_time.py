STORY = "A learner admits only when nobody runs. The batch shrinks to its longest request before the next wave comes."
CONCEPT = "A step has prefills or decodes, never both: while prompts arrive that fit, no request decodes."
EDITS = [
    (
        ("        if not output.preempted_req_ids:\n            self._schedule_waiting(output, token_budget)\n"),
        (
            "        if not output.preempted_req_ids and (not self.running or prefills):\n"
            "            self._schedule_waiting(output, token_budget)\n"
        ),
    ),
]
