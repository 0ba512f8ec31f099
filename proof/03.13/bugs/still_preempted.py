STORY = "The status is set for newcomers only. Who comes back stays PREEMPTED, and has no turn."
CONCEPT = "An admitted request has left waiting, from any place in it, and runs last, past its head start."
EDITS = [
    (
        "        request.status = RequestStatus.RUNNING\n",
        "        if request.status is not RequestStatus.PREEMPTED:\n            request.status = RequestStatus.RUNNING\n",
    ),
]
