STORY = "A learner rounds the arrival. Requests of the same second are ordered by their ids."
CONCEPT = "A lower number is more urgent; then who arrived first; then the id, so that the order is never left open."
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        "return (request.priority, int(request.arrival_time), request.request_id)",
    ),
]
