STORY = (
    "A learner reads ids as numbers, since those of the example are. The order differs from vLLM's where ids are text."
)
CONCEPT = (
    "A lower priority is more urgent, then the earlier arrival, then the lower id, so the order is never left open."
)
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        "return (request.priority, request.arrival_time, len(request.request_id), request.request_id)",
    ),
]
