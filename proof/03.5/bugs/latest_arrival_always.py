STORY = "A learner takes the last to arrive under first come, first served. Who runs is ordered by admission."
CONCEPT = "Under first come, first served the victim is the last that was admitted."
EDITS = [
    (
        ('        if self.policy == "fcfs":\n            return self.running.pop()\n'),
        (
            '        if self.policy == "fcfs":\n'
            "            victim = max(self.running, key=lambda request: request.arrival_time)\n"
            "            self.running.remove(victim)\n"
            "            return victim\n"
        ),
    ),
]
