STORY = (
    "A learner puts a victim behind its equals by a microsecond. It stands behind a newcomer that came a "
    "little later, too."
)
CONCEPT = "Times are compared as they are: the smallest difference decides, between large numbers too."
EDITS = [
    (
        "    return (request.priority, request.arrival_time, request.request_id)",
        (
            "    return (request.priority, request.arrival_time + (request.num_preemptions > 0) * 1e-6, "
            "request.request_id)"
        ),
    ),
]
