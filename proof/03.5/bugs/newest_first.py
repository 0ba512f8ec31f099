STORY = (
    "A learner turns the time around with the sign that belonged elsewhere. Among equals the last to come is "
    "served first."
)
CONCEPT = (
    "A lower priority is more urgent, then the earlier arrival, then the lower id, so the order is never left open."
)
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        "return (request.priority, -request.arrival_time, request.request_id)",
    ),
]
