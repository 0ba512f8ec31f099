STORY = "A learner knows two classes, urgent and not. All above zero are the same."
CONCEPT = "A lower number is more urgent; then who arrived first; then the id, so that the order is never left open."
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        "return (request.priority > 0, request.arrival_time, request.request_id)",
    ),
]
