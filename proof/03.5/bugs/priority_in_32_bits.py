STORY = "A learner packs the priority into 32 bits. A number beyond them turns into the opposite."
CONCEPT = "Whatever the numbers, the times and the names are, the queue is in the order that they make."
EDITS = [
    (
        "    return (request.priority, request.arrival_time, request.request_id)",
        "    return ((request.priority + 2**31) % 2**32, request.arrival_time, request.request_id)",
    ),
]
