STORY = (
    "A learner sets RUNNING only for what was WAITING. A preempted request runs under its old status and is "
    "passed over."
)
CONCEPT = "A victim that comes back computes all that it knows again, its own output included."
EDITS = [
    (
        ("        request.status = RequestStatus.RUNNING\n"),
        ("        if request.status is RequestStatus.WAITING:\n            request.status = RequestStatus.RUNNING\n"),
    ),
]
