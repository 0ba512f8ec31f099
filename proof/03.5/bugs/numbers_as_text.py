STORY = "A learner joins the fields into one string. Priority 10 then comes before 9."
CONCEPT = "A lower number is more urgent; then who arrived first; then the id, so that the order is never left open."
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        'return (f"{request.priority}-{request.arrival_time}-{request.request_id}",)',
    ),
]
