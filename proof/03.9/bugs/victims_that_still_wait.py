STORY = "A learner counts the victims in the queue. Each of them is counted again in every step until it is back."
CONCEPT = "A preemption belongs to the step in which it happens, and to no other."
EDITS = [
    (
        ("            num_preempted_reqs=len(output.preempted_req_ids),\n"),
        ('            num_preempted_reqs=sum(request.status.name == "PREEMPTED" for request in scheduler.waiting),\n'),
    ),
]
