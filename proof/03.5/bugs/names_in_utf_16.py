STORY = "A learner compares ids as they stand in memory in another language. A smiley comes before a letter that has a lower number."
CONCEPT = (
    "A lower priority is more urgent, then the earlier arrival, then the lower id, so the order is never left open."
)
EDITS = [
    (
        "    return (request.priority, request.arrival_time, request.request_id)",
        '    return (request.priority, request.arrival_time, request.request_id.encode("utf-16-be"))',
    )
]
