STORY = (
    "A learner does not ask whether the request still runs. An aborted request gets a token, and its owner a surprise."
)
CONCEPT = "An answer can come too late: a request that ended while the model ran gets nothing more."
EDITS = [
    (
        (
            "            if request.status is not RequestStatus.RUNNING:  # finished from outside while the model ran\n"
            "                continue\n"
        ),
        "",
    ),
]
