STORY = (
    "A learner rounds the times to a millisecond, since a clock is not more exact. Two requests of one "
    "millisecond are ordered by their names."
)
CONCEPT = (
    "Times are compared as they are: a difference of a microsecond decides, and so does one between large numbers."
)
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        "return (request.priority, round(request.arrival_time, 3), request.request_id)",
    ),
]
