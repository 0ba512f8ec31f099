STORY = "A learner guards against negative numbers. The most urgent of all becomes less urgent than zero."
CONCEPT = (
    "A lower priority is more urgent, then the earlier arrival, then the lower id, so the order is never left open."
)
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        "return (max(request.priority, 0), request.arrival_time, request.request_id)",
    ),
]
