STORY = (
    "A learner ignores case in the ids. Two that differ in nothing else are equal, and their order is left to chance."
)
CONCEPT = "Whatever the numbers, the times and the names are, the queue is in the order that they make."
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        "return (request.priority, request.arrival_time, request.request_id.lower())",
    ),
]
