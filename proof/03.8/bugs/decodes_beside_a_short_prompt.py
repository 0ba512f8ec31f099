STORY = "A learner thinks of the average stream: beside one short prompt four or more who run may go on."
CONCEPT = "A step has prefills or decodes, never both: while prompts arrive that fit, no request decodes."
EDITS = [
    (
        "        if not output.num_scheduled_tokens:\n",
        "        if not output.num_scheduled_tokens or len(self.running) > 4:\n",
    ),
    (
        "            self._schedule_running(list(self.running), output, token_budget)\n",
        "            others = [r for r in self.running if r.request_id not in output.num_scheduled_tokens]\n"
        "            self._schedule_running(others, output, token_budget)\n",
    ),
]
