STORY = "A learner moves the request and forgets its status. update_from_output passes it over as if it had ended."
CONCEPT = "An admitted request goes from waiting to running, and holds slots for what it computes."
EDITS = [
    (
        ("        request.status = RequestStatus.RUNNING\n"),
        "",
    ),
]
