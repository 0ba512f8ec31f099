STORY = (
    "A learner sorts the ids of the victims, since a set is compared more easily. The order in which they "
    "gave way is lost."
)
CONCEPT = "One victim may not be enough: each refusal preempts one more, until the request has its slots."
EDITS = [
    (
        "        if not output.preempted_req_ids:",
        ("        output.preempted_req_ids.sort()\n        if not output.preempted_req_ids:"),
    ),
]
