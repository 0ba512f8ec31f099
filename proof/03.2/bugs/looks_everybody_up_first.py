STORY = (
    "A learner looks up all that wait before the first is admitted, to save calls. What the first one "
    "publishes is not found, and a block that was found may have been taken as a fresh one."
)
CONCEPT = "The cache is asked when a request stands at the head: those admitted before it may have changed the answer."
EDITS = [
    (
        (
            "        while token_budget > 0 and len(self.running) < self.max_num_seqs:\n"
            "            request = self._next_waiting()"
        ),
        (
            "        found = {request.request_id: kv.get_computed_blocks(request) for request in self.waiting}\n"
            "        while token_budget > 0 and len(self.running) < self.max_num_seqs:\n"
            "            request = self._next_waiting()"
        ),
    ),
    (
        "computed_blocks, num_computed = kv.get_computed_blocks(request)",
        "computed_blocks, num_computed = found[request.request_id]",
    ),
]
