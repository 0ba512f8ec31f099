STORY = (
    "A learner passes over requests that were aborted. One that a stop string has ended outside is "
    "extended, and finishes a second time."
)
CONCEPT = "An answer can come too late: a request that ended while the model ran gets nothing more."
EDITS = [
    (
        "if request.status is not RequestStatus.RUNNING:",
        "if request.status is RequestStatus.FINISHED_ABORTED:",
    ),
]
