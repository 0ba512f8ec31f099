"""The lab's own rules and nothing more: the victim under priority is of 03.5."""

EDITS = [
    (
        """
        if self.policy == "fcfs":
            return self.running.pop()
        # Among equals of priority and arrival time it is the first, as in vLLM. Without reserve_full_sequence two such
        # requests can preempt each other without end, in vLLM as here: give requests arrival times of their own.
        victim = max(self.running, key=lambda request: (request.priority, request.arrival_time))
        self.running.remove(victim)
        return victim
""",
        """
        return self.running.pop()
""",
    )
]
