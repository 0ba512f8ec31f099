STORY = "A learner rounds the arrival. Requests of the same second are ordered by their ids."
CONCEPT = (
    "A lower priority is more urgent, then the earlier arrival, then the lower id, so the order is never left open."
)
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        "return (request.priority, int(request.arrival_time), request.request_id)",
    ),
]
