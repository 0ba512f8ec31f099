STORY = "A learner moves the request and forgets its status. update_from_output passes it over as if it had ended."
CONCEPT = "To be admitted is to go from waiting to running, and to hold slots for what is computed."
EDITS = [
    (
        ("        request.status = RequestStatus.RUNNING\n"),
        "",
    ),
]
