STORY = "A learner takes for a prefill only what has no output yet. A victim comes back beside the decodes."
CONCEPT = "A request that comes back prefills all that it knows, output included: the others wait for it."
EDITS = [
    (
        (
            "        if not output.num_scheduled_tokens:\n"
            "            self._schedule_running(list(self.running), output, token_budget)\n"
        ),
        (
            "        if all(request.output_token_ids for request in output.scheduled_requests):\n"
            "            others = [r for r in self.running if r.request_id not in output.num_scheduled_tokens]\n"
            "            self._schedule_running(others, output, token_budget)\n"
        ),
    ),
]
