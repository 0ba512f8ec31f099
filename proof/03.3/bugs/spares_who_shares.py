STORY = (
    "A learner looks for a victim whose blocks nobody else holds, so that something is gained. The last "
    "one keeps its place."
)
CONCEPT = "The place in running decides: not a request's past, not what is left to do, not what it would give back."
EDITS = [
    (
        ('        if self.policy == "fcfs":\n            return self.running.pop()\n'),
        (
            '        if self.policy == "fcfs":\n'
            "            kv = self.kv_cache_manager\n"
            "            held = [block for request in self.running for block in kv.get_block_ids(request.request_id)]\n"
            "            for request in reversed(self.running):\n"
            "                if all(held.count(block) == 1 for block in kv.get_block_ids(request.request_id)):\n"
            "                    self.running.remove(request)\n"
            "                    return request\n"
            "            return self.running.pop()\n"
        ),
    ),
]
