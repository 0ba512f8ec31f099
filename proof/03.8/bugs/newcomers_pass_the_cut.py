STORY = (
    "A learner admits first and then goes on with what was cut. As long as short prompts come, the long one "
    "stands still with its blocks."
)
CONCEPT = "The end of a cut prompt leaves budget: requests that fit whole may join it, but none may pass it."
EDITS = [
    (
        (
            "        prefills = [request for request in self.running if in_prefill(request)]\n"
            "        token_budget = self._schedule_running(prefills, output, self.max_num_batched_tokens)\n"
            "        if not output.preempted_req_ids:\n"
            "            self._schedule_waiting(output, token_budget)\n"
        ),
        (
            "        token_budget = self.max_num_batched_tokens\n"
            "        prefills = [request for request in self.running if in_prefill(request)]\n"
            "        self._schedule_waiting(output, token_budget)\n"
            "        token_budget = self._schedule_running(prefills, output, token_budget - "
            "output.total_num_scheduled_tokens)\n"
        ),
    ),
]
