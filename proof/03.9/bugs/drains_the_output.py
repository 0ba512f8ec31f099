STORY = "The victims are counted by taking them out of the list, one after the other. Who reads the output later finds that nobody was preempted."
CONCEPT = "After any run the figures of a step are those of that step, and to look has changed nothing."
EDITS = [
    (
        "num_preempted_reqs=len(output.preempted_req_ids)",
        "num_preempted_reqs=sum(1 for _ in iter(lambda: output.preempted_req_ids and output.preempted_req_ids.pop(), []))",
    )
]
