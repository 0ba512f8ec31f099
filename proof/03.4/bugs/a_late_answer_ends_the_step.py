STORY = "A learner leaves the loop when a request has ended meanwhile. All behind it lose their token."
CONCEPT = "A request that ended meanwhile is passed over, and those behind it are not."
EDITS = [
    (
        (
            "            if request.status is not RequestStatus.RUNNING:  # finished from outside while the model ran\n"
            "                continue\n"
        ),
        (
            "            if request.status is not RequestStatus.RUNNING:  # finished from outside while the model ran\n"
            "                break\n"
        ),
    ),
]
