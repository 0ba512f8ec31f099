STORY = (
    "A learner leaves the id out. Two requests of the same instant are equal, and their order depends on how they"
    " were put in."
)
CONCEPT = "A lower number is more urgent; then who arrived first; then the id, so that the order is never left open."
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        "return (request.priority, request.arrival_time)",
    ),
]
