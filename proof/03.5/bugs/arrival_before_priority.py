STORY = "A learner puts the arrival first in the tuple. Priority decides only between requests of the same instant."
CONCEPT = (
    "A lower priority is more urgent, then the earlier arrival, then the lower id, so the order is never left open."
)
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        "return (request.arrival_time, request.priority, request.request_id)",
    ),
]
