STORY = "A learner gives the second loop a fresh budget. The step is larger than max_num_batched_tokens."
CONCEPT = "Running requests compute first; a newcomer gets what they leave of the budget."
EDITS = [
    (
        (
            "token_budget = self._schedule_running(list(self.running), output, self.max_num_batched_tokens)\n"
            "        if not output.preempted_req_ids:\n"
            "            self._schedule_waiting(output, token_budget)\n"
        ),
        (
            "token_budget = self._schedule_running(list(self.running), output, self.max_num_batched_tokens)\n"
            "        if not output.preempted_req_ids:\n"
            "            self._schedule_waiting(output, self.max_num_batched_tokens)\n"
        ),
    ),
]
