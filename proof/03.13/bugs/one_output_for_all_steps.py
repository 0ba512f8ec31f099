STORY = "A learner keeps one output and empties it for each step. Whoever still holds that of the step before sees the next."
CONCEPT = "Your parts decide together as the reference does: first come, first served."
EDITS = [
    (
        "        output = SchedulerOutput()\n",
        "        output = vars(self).setdefault('output', SchedulerOutput())\n"
        "        output.num_scheduled_tokens, output.scheduled_requests, output.preempted_req_ids = {}, [], []\n",
    )
]
