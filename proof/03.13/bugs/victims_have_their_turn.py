STORY = "The loop goes over a copy and does not look who was preempted meanwhile."
CONCEPT = "A request that ran when the step began has its turn, whichever requests leave before or behind it."
EDITS = [
    (
        "            if request.status is preempted:  # a victim of this very loop\n                continue\n",
        "",
    ),
]
