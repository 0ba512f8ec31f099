STORY = "A learner asks whether anybody was admitted. A step that only goes on with a cut prompt decodes, too."
CONCEPT = "A prompt longer than the budget is cut; no request is admitted or decodes until its end is computed."
EDITS = [
    (
        (
            "        if not output.num_scheduled_tokens:\n"
            "            self._schedule_running(list(self.running), output, token_budget)\n"
        ),
        (
            "        if all(request in prefills for request in output.scheduled_requests):\n"
            "            others = [request for request in self.running if request not in prefills]\n"
            "            self._schedule_running(others, output, token_budget)\n"
        ),
    ),
]
