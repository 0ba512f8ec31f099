STORY = (
    "A learner takes a request that ended with its length for one that this very step has ended. One that "
    "was ended so from outside is appended to."
)
CONCEPT = "An answer can come too late: a request that ended while the model ran gets nothing more."
EDITS = [
    (
        "if request.status is not RequestStatus.RUNNING:",
        (
            "if request.status in (\n"
            "                RequestStatus.FINISHED_STOPPED,\n"
            "                RequestStatus.FINISHED_ABORTED,\n"
            "                RequestStatus.FINISHED_ERROR,\n"
            "            ):"
        ),
    ),
]
