STORY = "A learner puts priority and time into one number. With times of days the less urgent one comes first."
CONCEPT = "Whatever the numbers, the times and the names are, the queue is in the order that they make."
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        "return (request.priority * 1e6 + request.arrival_time, request.request_id)",
    ),
]
