STORY = (
    "A learner takes a moment off the arrival for each preemption, against starving. Of two close "
    "arrivals the earlier one gives way."
)
CONCEPT = "The request of this call decides: no request of the same id, no count and no earlier call stands for it."
EDITS = [
    (
        "key=lambda request: (request.priority, request.arrival_time))",
        "key=lambda request: (request.priority, request.arrival_time - request.num_preemptions * 1e-7))",
    ),
]
