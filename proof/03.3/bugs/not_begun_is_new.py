STORY = (
    "A learner takes a victim whose counter is still at 0 for a newcomer. It was admitted, and goes to "
    "the back of the queue."
)
CONCEPT = "A victim is marked as one that had begun: it is PREEMPTED, one time more."
EDITS = [
    (
        "request.status = RequestStatus.PREEMPTED",
        (
            "if request.num_computed_tokens:\n"
            "            request.status = RequestStatus.PREEMPTED\n"
            "        else:\n"
            "            request.status = RequestStatus.WAITING"
        ),
    ),
]
