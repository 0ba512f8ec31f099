STORY = "When everybody decodes, the list of the step is running itself. Who is aborted while the model runs disappears from the step, too."
CONCEPT = "After any calls every step is the one that the rules make of them, and nothing that was given has changed."
EDITS = [
    (
        "        if not output.num_scheduled_tokens:\n            self._schedule_running(list(self.running), output, token_budget)\n        return output\n",
        "        if not output.num_scheduled_tokens:\n            self._schedule_running(list(self.running), output, token_budget)\n            if output.scheduled_requests == self.running:\n                output.scheduled_requests = self.running\n        return output\n",
    )
]
