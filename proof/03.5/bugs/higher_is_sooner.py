STORY = "A learner thinks of importance: ten is more than one. The least urgent are served first."
CONCEPT = (
    "A lower priority is more urgent, then the earlier arrival, then the lower id, so the order is never left open."
)
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        "return (-request.priority, request.arrival_time, request.request_id)",
    ),
]
