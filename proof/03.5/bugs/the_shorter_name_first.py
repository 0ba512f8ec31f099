STORY = "A learner orders ids by their length first, so that r2 comes before r10. The contract compares them as text."
CONCEPT = "Whatever the numbers, the times and the names are, the queue is in the order that they make."
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        "return (request.priority, request.arrival_time, len(request.request_id), request.request_id)",
    ),
]
