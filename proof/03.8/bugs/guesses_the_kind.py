STORY = (
    "A learner decides the kind of the step beforehand: a queue and a free place make it a prefill. With no "
    "blocks it is a step of nothing."
)
CONCEPT = "A queue is no reason to stand still: if no waiting request can be admitted, all running ones decode."
EDITS = [
    (
        (
            "        if not output.num_scheduled_tokens:\n"
            "            self._schedule_running(list(self.running), output, token_budget)\n"
        ),
        (
            "        if not output.num_scheduled_tokens and (not self.waiting or len(self.running) == "
            "self.max_num_seqs):\n"
            "            self._schedule_running(list(self.running), output, token_budget)\n"
        ),
    ),
]
