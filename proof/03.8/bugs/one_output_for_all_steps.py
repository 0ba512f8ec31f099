STORY = "The output is made once and emptied in every step. Whoever still reads that of the step before reads this one."
CONCEPT = "After any calls every step is the one that the rules make of them, and nothing that was given has changed."
EDITS = [
    (
        "        output = SchedulerOutput()\n",
        "        output = vars(self).get('reused') or SchedulerOutput()\n        output.num_scheduled_tokens.clear()\n        output.scheduled_requests.clear()\n        output.preempted_req_ids.clear()\n        self.reused = output\n",
    )
]
