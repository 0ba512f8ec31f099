STORY = "A learner keeps priorities within -8 and 7, as on another system. All beyond are equal."
CONCEPT = "Whatever the numbers, the times and the names are, the queue is in the order that they make."
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        "return (max(-8, min(7, request.priority)), request.arrival_time, request.request_id)",
    ),
]
