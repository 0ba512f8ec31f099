STORY = "A learner takes a request with a prefix hit for a cheap one that should stay. The one before it gives way."
CONCEPT = "The place in running decides: not a request's past, not what is left to do, not what it would give back."
EDITS = [
    (
        ('        if self.policy == "fcfs":\n            return self.running.pop()\n'),
        (
            '        if self.policy == "fcfs":\n'
            "            paid = [request for request in self.running if not request.num_cached_tokens] or self.running\n"
            "            victim = paid[-1]\n"
            "            self.running.remove(victim)\n"
            "            return victim\n"
        ),
    ),
]
