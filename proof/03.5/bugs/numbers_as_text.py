STORY = "A learner joins the fields into one string. Priority 10 then comes before 9."
CONCEPT = (
    "A lower priority is more urgent, then the earlier arrival, then the lower id, so the order is never left open."
)
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        'return (f"{request.priority}-{request.arrival_time}-{request.request_id}",)',
    ),
]
