STORY = "The ids of those that were cut are kept in a set of the class. A second scheduler that has a request of the same name takes its own for cut."
CONCEPT = "Two schedulers know nothing of each other, though their requests have the same names."
EDITS = [
    ("    def schedule(self)", "    CUT = set()\n\n    def schedule(self)"),
    (
        "        prefills = [request for request in self.running if in_prefill(request)]\n",
        "        prefills = [request for request in self.running if request.request_id in self.CUT and in_prefill(request)]\n",
    ),
    (
        "        if not output.num_scheduled_tokens:\n            self._schedule_running(list(self.running), output, token_budget)\n        return output\n",
        "        if not output.num_scheduled_tokens:\n            self._schedule_running(list(self.running), output, token_budget)\n        for request in output.scheduled_requests:\n            n = output.num_scheduled_tokens[request.request_id]\n            if request.num_computed_tokens + n < request.num_tokens:\n                self.CUT.add(request.request_id)\n            else:\n                self.CUT.discard(request.request_id)\n        return output\n",
    ),
]
