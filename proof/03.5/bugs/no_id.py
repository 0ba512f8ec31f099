STORY = (
    "A learner leaves the id out. Two requests of the same instant are equal, and their order depends on how they"
    " were put in."
)
CONCEPT = (
    "A lower priority is more urgent, then the earlier arrival, then the lower id, so the order is never left open."
)
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        "return (request.priority, request.arrival_time)",
    ),
]
