STORY = (
    "A learner goes over a copy of running and does not look who has been preempted meanwhile. The victim gets "
    "blocks and a row while it waits."
)
CONCEPT = "When blocks run out, the youngest gives way; the others decode as if it had never been there."
BASE = "own_loop"
EDITS = [
    (
        (
            "            if request.status is RequestStatus.PREEMPTED:  # a victim of this very loop\n"
            "                continue\n"
        ),
        "",
    ),
]
