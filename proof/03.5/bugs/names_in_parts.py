STORY = (
    "A learner splits the ids at the dash and compares the parts. Ids with other signs in that place stand elsewhere."
)
CONCEPT = "Whatever the numbers, the times and the names are, the queue is in the order that they make."
EDITS = [
    (
        "    return (request.priority, request.arrival_time, request.request_id)",
        '    return (request.priority, request.arrival_time, request.request_id.split("-"))',
    ),
]
