STORY = (
    "A learner keeps the order of lab 03.2: who runs comes first, and newcomers only if nobody does. It is "
    "static batching."
)
CONCEPT = "A step has prefills or decodes, never both: while prompts arrive that fit, no request decodes."
EDITS = [
    (
        (
            "        if not output.preempted_req_ids:\n"
            "            self._schedule_waiting(output, token_budget)\n"
            "        if not output.num_scheduled_tokens:\n"
            "            self._schedule_running(list(self.running), output, token_budget)\n"
        ),
        (
            "        if not output.num_scheduled_tokens:\n"
            "            token_budget = self._schedule_running(list(self.running), output, token_budget)\n"
            "        if not output.num_scheduled_tokens and not output.preempted_req_ids:\n"
            "            self._schedule_waiting(output, token_budget)\n"
        ),
    ),
]
