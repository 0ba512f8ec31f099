STORY = "A learner knows a victim by num_preemptions. A request that starts anew goes to the front as a newcomer."
CONCEPT = "Under first come, first served the numbers mean nothing: newcomers at the back, victims at the front."
EDITS = [
    (
        "        elif request.status is RequestStatus.PREEMPTED:\n",
        "        elif request.num_preemptions:\n",
    ),
]
