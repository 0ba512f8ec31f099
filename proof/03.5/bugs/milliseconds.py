STORY = (
    "A learner rounds the times to a millisecond, since a clock is not more exact. Two requests of one "
    "millisecond are ordered by their names."
)
CONCEPT = "Times are compared as they are: the smallest difference decides, between large numbers too."
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        "return (request.priority, round(request.arrival_time, 3), request.request_id)",
    ),
]
