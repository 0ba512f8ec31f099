STORY = (
    "A learner takes turns: whoever gave way least often gives way now. A request that is further in "
    "front loses its blocks, and the oldest may be disturbed."
)
CONCEPT = "The place in running decides: not a request's past, not what is left to do, not what it would give back."
EDITS = [
    (
        ('        if self.policy == "fcfs":\n            return self.running.pop()\n'),
        (
            '        if self.policy == "fcfs":\n'
            "            least = min(request.num_preemptions for request in self.running)\n"
            "            victim = [request for request in self.running if request.num_preemptions == least][-1]\n"
            "            self.running.remove(victim)\n"
            "            return victim\n"
        ),
    ),
]
