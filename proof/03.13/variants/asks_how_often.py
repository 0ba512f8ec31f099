"""It asks how often the request was preempted: a waiting request is PREEMPTED if, and only if, it was once."""

EDITS = [("if request.status is RequestStatus.WAITING:", "if request.num_preemptions == 0:")]
