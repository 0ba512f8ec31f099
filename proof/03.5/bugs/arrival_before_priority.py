STORY = "A learner puts the arrival first in the tuple. Priority decides only between requests of the same instant."
CONCEPT = "A lower number is more urgent; then who arrived first; then the id, so that the order is never left open."
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        "return (request.arrival_time, request.priority, request.request_id)",
    ),
]
