STORY = "A learner strips the ids of spaces. Two ids that differ in them alone stand in the order of the calls."
CONCEPT = "Whatever the numbers, the times and the names are, the queue is in the order that they make."
EDITS = [
    (
        "    return (request.priority, request.arrival_time, request.request_id)",
        "    return (request.priority, request.arrival_time, request.request_id.strip())",
    ),
]
