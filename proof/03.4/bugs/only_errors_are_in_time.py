STORY = (
    "A learner lists the ways to end and forgets the error. A request that failed while the model ran "
    "gets its token and finishes again."
)
CONCEPT = "An answer can come too late: a request that ended while the model ran gets nothing more."
EDITS = [
    (
        "if request.status is not RequestStatus.RUNNING:",
        'if request.finish_reason in ("stop", "length", "abort"):',
    ),
]
