STORY = (
    "nano-vllm counts no tokens in a step of decodes. With more requests than budget the step is larger than the "
    "buffers that were made for it."
)
CONCEPT = "A step of decodes has a budget, too; a request that finds it empty is no part of the step."
EDITS = [
    (
        (
            "        if not output.num_scheduled_tokens:\n"
            "            self._schedule_running(list(self.running), output, token_budget)\n"
        ),
        (
            "        if not output.num_scheduled_tokens:\n"
            "            self._schedule_running(list(self.running), output, len(self.running))\n"
        ),
    ),
]
