STORY = "A learner rounds the times to nanoseconds. Of two that differ by less the id decides."
CONCEPT = "Times are compared as they are: the smallest difference decides, between large numbers too."
EDITS = [
    (
        "    return (request.priority, request.arrival_time, request.request_id)",
        "    return (request.priority, round(request.arrival_time, 9), request.request_id)",
    ),
]
