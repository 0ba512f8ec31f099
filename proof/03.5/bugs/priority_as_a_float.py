STORY = "A learner keeps all of the key in floats. Large priorities that differ by one are equal."
CONCEPT = "Whatever the numbers, the times and the names are, the queue is in the order that they make."
EDITS = [
    (
        "    return (request.priority, request.arrival_time, request.request_id)",
        "    return (float(request.priority), request.arrival_time, request.request_id)",
    ),
]
