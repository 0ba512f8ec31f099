STORY = (
    "A learner keeps one output and empties it at the beginning of each step. The engine still reads the one before."
)
CONCEPT = "What schedule() returned stays as it was, whatever the next steps decide."
EDITS = [
    (
        "output = SchedulerOutput()",
        (
            'output = self.__dict__.setdefault("_output", SchedulerOutput())\n'
            "        output.num_scheduled_tokens.clear()\n"
            "        output.scheduled_requests.clear()\n"
            "        output.preempted_req_ids.clear()"
        ),
    ),
]
