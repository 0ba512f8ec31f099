STORY = "A learner bounds the times, so that a wrong clock does no harm. Two times beyond the bound are equal."
CONCEPT = "Whatever the numbers, the times and the names are, the queue is in the order that they make."
EDITS = [
    (
        "    return (request.priority, request.arrival_time, request.request_id)",
        "    return (request.priority, max(-1e12, min(1e12, request.arrival_time)), request.request_id)",
    ),
]
