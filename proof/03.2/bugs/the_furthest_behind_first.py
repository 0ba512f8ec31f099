STORY = "A learner serves first the request that is furthest behind. The step is no longer in order of admission."
CONCEPT = "Running requests are served in order of admission, however far each of them is behind, and keep this order."
EDITS = [
    (
        "        for request in requests:\n            if request.status is preempted:",
        "        for request in sorted(requests, key=lambda each: each.num_computed_tokens - each.num_tokens):\n            if request.status is preempted:",
    )
]
