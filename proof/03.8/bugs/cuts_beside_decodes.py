STORY = "A learner forgets what was cut: a step that admits nobody decodes, and the next chunk is one of the rows."
CONCEPT = "A prompt longer than the budget is cut; no request is admitted or decodes until its end is computed."
EDITS = [
    (
        (
            "        prefills = [request for request in self.running if in_prefill(request)]\n"
            "        token_budget = self._schedule_running(prefills, output, self.max_num_batched_tokens)\n"
        ),
        "        token_budget = self.max_num_batched_tokens\n",
    ),
]
