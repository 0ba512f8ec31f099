STORY = "It is asked how often the request was preempted, and a victim that never computed anything is counted as a first one."
CONCEPT = "A first admission and one after a preemption are counted apart; the sender hears of the first."
EDITS = [
    (
        "        if request.status is RequestStatus.WAITING:\n",
        "        if request.num_preemptions == 0:\n",
    ),
]
