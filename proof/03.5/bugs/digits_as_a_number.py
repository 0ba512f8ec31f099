STORY = "A learner compares ids of digits as numbers, and others as text. The id 10 comes after 9."
CONCEPT = (
    "A lower priority is more urgent, then the earlier arrival, then the lower id, so the order is never left open."
)
EDITS = [
    (
        "    return (request.priority, request.arrival_time, request.request_id)",
        "    name = request.request_id\n    return (request.priority, request.arrival_time, not name.isdigit(), int(name) if name.isdigit() else name)",
    )
]
