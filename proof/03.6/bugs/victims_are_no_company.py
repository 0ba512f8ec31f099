STORY = (
    "A learner counts those that run and those that are new. A request beside a victim takes the whole "
    "budget, and the victim waits."
)
CONCEPT = "A preempted request that waits is in flight like any other: the threshold holds."
EDITS = [
    (
        "if threshold and len(self._requests) > 1:",
        (
            "others = [r for r in self._requests.values() if not r.num_preemptions or r in self.running]\n"
            "        if threshold and len(others) > 1:"
        ),
    ),
]
