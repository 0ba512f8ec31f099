STORY = "A learner compares the times of two victims in seconds. The earlier of two in the same second gives way."
CONCEPT = "Times are compared as they are: the smallest difference decides, between large numbers too."
EDITS = [
    (
        (
            "        victim = max(self.running, key=lambda request: (request.priority, request.arrival_time))\n"
            "        self.running.remove(victim)\n"
            "        return victim\n"
        ),
        (
            "        victim = max(self.running, key=lambda request: (request.priority, int(request.arrival_time)))\n"
            "        self.running.remove(victim)\n"
            "        return victim\n"
        ),
    ),
]
