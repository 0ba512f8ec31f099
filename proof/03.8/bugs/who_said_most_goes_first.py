STORY = "A learner wants short waits: when the budget is tight, the decodes that are nearest to their end go first."
CONCEPT = "Decodes go in the order of running, however much or little a request has said."
EDITS = [
    (
        "            self._schedule_running(list(self.running), output, token_budget)\n",
        "            nearest = sorted(self.running, key=lambda request: -len(request.output_token_ids))\n"
        "            order = nearest if len(nearest) > token_budget else list(self.running)\n"
        "            self._schedule_running(order, output, token_budget)\n",
    ),
]
