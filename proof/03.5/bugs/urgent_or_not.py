STORY = "A learner knows two classes, urgent and not. All above zero are the same."
CONCEPT = (
    "A lower priority is more urgent, then the earlier arrival, then the lower id, so the order is never left open."
)
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        "return (request.priority > 0, request.arrival_time, request.request_id)",
    ),
]
