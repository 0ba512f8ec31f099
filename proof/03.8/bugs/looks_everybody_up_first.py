STORY = "A learner looks up the hits of everybody who waits, and then admits. A block that was found free may be taken as a new one by the request before."
CONCEPT = "After any calls every step is the one that the rules make of them, and nothing that was given has changed."
EDITS = [
    (
        "        kv = self.kv_cache_manager\n        while",
        "        kv = self.kv_cache_manager\n        found = {request.request_id: kv.get_computed_blocks(request) for request in self.waiting}\n        while",
    ),
    (
        "            computed_blocks, num_computed = kv.get_computed_blocks(request)\n",
        "            computed_blocks, num_computed = found[request.request_id]\n",
    ),
]
