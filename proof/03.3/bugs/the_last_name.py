STORY = "A learner takes the request with the greatest id for the youngest. Names do not say who was admitted last."
CONCEPT = "The place in running decides: not a request's past, not what is left to do, not what it would give back."
EDITS = [
    (
        ('        if self.policy == "fcfs":\n            return self.running.pop()\n'),
        (
            '        if self.policy == "fcfs":\n'
            "            victim = max(self.running, key=lambda request: request.request_id)\n"
            "            self.running.remove(victim)\n"
            "            return victim\n"
        ),
    ),
]
