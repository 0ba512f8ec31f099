STORY = (
    "A learner thinks that a budget should not be wasted, and lets decodes have what the prompts leave. The step "
    "is V1's turned round, and of two kinds."
)
CONCEPT = "A step has prefills or decodes, never both: while prompts arrive that fit, no request decodes."
EDITS = [
    (
        (
            "        if not output.num_scheduled_tokens:\n"
            "            self._schedule_running(list(self.running), output, token_budget)\n"
        ),
        (
            "        rest = self.max_num_batched_tokens - output.total_num_scheduled_tokens\n"
            "        self._schedule_running([r for r in self.running if r.request_id not in "
            "output.num_scheduled_tokens], output, rest)\n"
        ),
    ),
]
