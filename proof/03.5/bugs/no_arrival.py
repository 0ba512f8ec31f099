STORY = "A learner has priorities and ids only. Whoever has the lower id overtakes those who have waited."
CONCEPT = (
    "A lower priority is more urgent, then the earlier arrival, then the lower id, so the order is never left open."
)
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        "return (request.priority, request.request_id)",
    ),
]
