STORY = (
    "A learner remembers the key of a request by its id, to compute it once. A later request of the same "
    "id stands where the first one stood."
)
CONCEPT = "The request of this call decides: no request of the same id, no count and no earlier call stands for it."
EDITS = [
    (
        "return (request.priority, request.arrival_time, request.request_id)",
        ("return _keys.setdefault(request.request_id, (request.priority, request.arrival_time, request.request_id))"),
    ),
    (
        "def urgency(",
        ("_keys: dict = {}\n\n\ndef urgency("),
    ),
]
