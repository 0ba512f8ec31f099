STORY = (
    "A learner notes the id of the last victim and takes another one the next time. The note stays when "
    "the request has long ended, and holds for the next one of its id."
)
CONCEPT = "The place in running decides: not a request's past, not what is left to do, not what it would give back."
EDITS = [
    (
        ('        if self.policy == "fcfs":\n            return self.running.pop()\n'),
        (
            '        if self.policy == "fcfs":\n'
            "            victim = self.running[-1]\n"
            '            if len(self.running) > 1 and victim.request_id == getattr(self, "_last_victim", None):\n'
            "                victim = self.running[-2]\n"
            "            self._last_victim = victim.request_id\n"
            "            self.running.remove(victim)\n"
            "            return victim\n"
        ),
    ),
]
