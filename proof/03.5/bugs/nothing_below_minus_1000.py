STORY = "A learner cuts priorities off at -1000. The most urgent are equal."
CONCEPT = (
    "A lower priority is more urgent, then the earlier arrival, then the lower id, so the order is never left open."
)
EDITS = [
    (
        "    return (request.priority, request.arrival_time, request.request_id)",
        "    return (max(request.priority, -1000), request.arrival_time, request.request_id)",
    )
]
