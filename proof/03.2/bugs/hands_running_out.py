STORY = (
    "A learner gives the list of those that run to the output when all of them compute. The next "
    "admission makes the output of the last step longer."
)
CONCEPT = "What schedule() returned stays as it was, whatever the next steps decide."
EDITS = [
    (
        ("            self._schedule_waiting(output, token_budget)\n"),
        (
            "            self._schedule_waiting(output, token_budget)\n"
            "        if output.scheduled_requests == self.running:\n"
            "            output.scheduled_requests = self.running\n"
        ),
    ),
]
