STORY = "A learner leaves the loop when a request has ended meanwhile. All behind it lose their token."
CONCEPT = "An answer can come too late: who ended while the model ran gets nothing more."
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
