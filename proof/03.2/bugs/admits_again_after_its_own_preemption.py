STORY = "A learner asks whether anything is in the step before it admits. A request that gave way itself, alone, is admitted again at once."
CONCEPT = "A request that runs alone is preempted itself when blocks are short, and that step admits no request."
EDITS = [
    (
        "        if not output.preempted_req_ids:\n",
        "        if not output.preempted_req_ids or not output.scheduled_requests:\n",
    )
]
