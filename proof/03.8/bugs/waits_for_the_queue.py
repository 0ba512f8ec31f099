STORY = (
    "A learner asks whether somebody waits, and decodes only if nobody does. A head without blocks stops all who "
    "run, and they never give their blocks back."
)
CONCEPT = "A queue is no reason to stand still: if no waiting request can be admitted, all running ones decode."
EDITS = [
    (
        (
            "        if not output.num_scheduled_tokens:\n"
            "            self._schedule_running(list(self.running), output, token_budget)\n"
        ),
        (
            "        if not self.waiting and not output.num_scheduled_tokens:\n"
            "            self._schedule_running(list(self.running), output, token_budget)\n"
        ),
    ),
]
