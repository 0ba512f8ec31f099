STORY = "A learner keeps the prompt that was cut in an attribute, and lets it go on unless it was preempted. A request that was aborted meanwhile is computed."
CONCEPT = "After any calls every step is the one that the rules make of them, and nothing that was given has changed."
EDITS = [
    (
        "        prefills = [request for request in self.running if in_prefill(request)]\n",
        "        cut = vars(self).get('cut')\n        prefills = [cut] if cut and cut.status.name != 'PREEMPTED' and in_prefill(cut) else []\n",
    ),
    (
        "        if not output.num_scheduled_tokens:\n            self._schedule_running(list(self.running), output, token_budget)\n        return output\n",
        "        if not output.num_scheduled_tokens:\n            self._schedule_running(list(self.running), output, token_budget)\n        steps = output.num_scheduled_tokens\n        behind = [r for r in output.scheduled_requests if r.num_computed_tokens + steps[r.request_id] < r.num_tokens]\n        self.cut = behind[0] if behind else None\n        return output\n",
    ),
]
