STORY = "The waiting requests are copied before the running half: a victim stands where it was not."
CONCEPT = "Your parts decide together as the reference does: by priority."
EDITS = [
    (
        "        output = SchedulerOutput()\n        token_budget",
        "        output = SchedulerOutput()\n        behind = list(self.waiting)\n        token_budget",
    ),
    (
        "        if not output.preempted_req_ids:\n            self._schedule_waiting(output, token_budget)\n",
        "        if not output.preempted_req_ids:\n            self._schedule_waiting(output, token_budget)\n        else:\n            victims = [each for each in self.waiting if each not in behind]\n            self.waiting.clear()\n            self.waiting.extend([*victims, *behind])\n",
    ),
]
