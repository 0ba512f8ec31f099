STORY = (
    "A learner removes from the output those that ended meanwhile. The record of the step no longer says "
    "what was computed."
)
CONCEPT = "What the call is given stays as it is: the output of schedule() and the sampled tokens."
EDITS = [
    (
        (
            "if request.status is not RequestStatus.RUNNING:  # finished from outside while the model ran\n"
            "                continue\n"
        ),
        ("if request.status is not RequestStatus.RUNNING:\n                continue\n"),
    ),
    (
        ("        if finished:\n            self.running"),
        (
            '        output.scheduled_requests[:] = [r for r in output.scheduled_requests if r.finish_reason != "abort"]\n'
            "        if finished:\n"
            "            self.running"
        ),
    ),
]
