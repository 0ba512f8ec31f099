STORY = "nano-vllm serves prompts before decodes. While prompts keep coming, every stream stands still."
CONCEPT = "Running requests compute first; a newcomer gets what they leave of the budget."
EDITS = [
    (
        (
            "token_budget = self._schedule_running(list(self.running), output, self.max_num_batched_tokens)\n"
            "        if not output.preempted_req_ids:\n"
            "            self._schedule_waiting(output, token_budget)\n"
        ),
        (
            "token_budget = self.max_num_batched_tokens\n"
            "        before = list(self.running)\n"
            "        self._schedule_waiting(output, token_budget)\n"
            "        new, self.running = self.running[len(before):], before\n"
            "        token_budget -= output.total_num_scheduled_tokens\n"
            "        self._schedule_running(list(self.running), output, token_budget)\n"
            "        self.running += new\n"
        ),
    ),
]
