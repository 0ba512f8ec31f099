STORY = "A learner adds up num_preemptions, which counts over a request's whole life."
CONCEPT = "A preemption belongs to the step in which it happens, and to no other."
EDITS = [
    (
        ("            num_preempted_reqs=len(output.preempted_req_ids),\n"),
        ("            num_preempted_reqs=sum(r.num_preemptions for r in [*scheduler.running, *scheduler.waiting]),\n"),
    ),
]
