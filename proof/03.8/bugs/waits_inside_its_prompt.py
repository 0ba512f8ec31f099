STORY = (
    "A learner lets a cut prompt that finds no block wait where it is, with the blocks that it has. Those who "
    "run do not decode, since a prefill is on its way."
)
CONCEPT = (
    "A cut prompt that finds no block is preempted, and the running requests decode; it does not come back at once."
)
EDITS = [
    (
        (
            "        prefills = [request for request in self.running if in_prefill(request)]\n"
            "        token_budget = self._schedule_running(prefills, output, self.max_num_batched_tokens)\n"
        ),
        (
            "        prefills = [request for request in self.running if in_prefill(request)]\n"
            "        token_budget = self.max_num_batched_tokens\n"
            "        for request in prefills:\n"
            "            n = self._chunk_size(request, request.num_computed_tokens, token_budget)\n"
            "            if self.kv_cache_manager.allocate_slots(request, n) is None:\n"
            "                return output\n"
            "            output.add(request, n)\n"
            "            token_budget -= n\n"
        ),
    ),
]
