STORY = "A learner gives everybody slots first, and asks then whether the budget has a token left for it."
CONCEPT = "A step of decodes has a budget, too; a request that finds it empty is no part of the step."
EDITS = [
    (
        "            self._schedule_running(list(self.running), output, token_budget)\n",
        "            self._schedule_running(list(self.running), output, token_budget)\n"
        "            for request in self.running[len(output.num_scheduled_tokens) :]:\n"
        "                self.kv_cache_manager.allocate_slots(request, 1)\n",
    ),
]
