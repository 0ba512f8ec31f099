STORY = "A learner compares the first eight letters of the ids. Ids that begin alike stand in the order of the calls."
CONCEPT = (
    "A lower priority is more urgent, then the earlier arrival, then the lower id, so the order is never left open."
)
EDITS = [
    (
        "    return (request.priority, request.arrival_time, request.request_id)",
        "    return (request.priority, request.arrival_time, request.request_id[:8])",
    ),
]
