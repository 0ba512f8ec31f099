STORY = "A learner compares the bytes of the ids as UTF-16. Letters beyond Latin-1 come before others."
CONCEPT = "Whatever the numbers, the times and the names are, the queue is in the order that they make."
EDITS = [
    (
        "    return (request.priority, request.arrival_time, request.request_id)",
        "    return (request.priority, request.arrival_time, request.request_id.encode('utf-16-le'))",
    ),
]
