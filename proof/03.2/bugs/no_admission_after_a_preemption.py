STORY = (
    "A learner keeps the queue closed while a preempted request waits. It waits for those that run, though there "
    "is room."
)
CONCEPT = "A step that had to preempt admits no request; in the next step the victim may come back."
EDITS = [
    (
        (
            "token_budget = self._schedule_running(list(self.running), output, self.max_num_batched_tokens)\n"
            "        if not output.preempted_req_ids:\n"
            "            self._schedule_waiting(output, token_budget)\n"
        ),
        (
            "token_budget = self._schedule_running(list(self.running), output, self.max_num_batched_tokens)\n"
            "        if not self.running or not any(r.num_preemptions for r in self.waiting):\n"
            "            self._schedule_waiting(output, token_budget)\n"
        ),
    ),
]
