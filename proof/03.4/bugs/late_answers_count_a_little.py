STORY = (
    "A learner refuses the token of an ended request but moves its counter and reports it. The caller gets the "
    "abort as an answer."
)
CONCEPT = "An answer can come too late: a request that ended while the model ran gets nothing more."
EDITS = [
    (
        (
            "            if request.status is not RequestStatus.RUNNING:  # finished from outside while the model ran\n"
            "                continue\n"
        ),
        (
            "            if request.status is not RequestStatus.RUNNING:\n"
            "                finished.append(request)\n"
            "                continue\n"
        ),
    ),
]
