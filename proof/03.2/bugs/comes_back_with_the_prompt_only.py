STORY = (
    "A learner measures a newcomer by its prompt. A preempted request never computes its own output again, though"
    " it runs."
)
CONCEPT = "Whoever comes back computes everything it knows again, its own output included."
EDITS = [
    (
        "num_missing = request.num_tokens - num_computed",
        "num_missing = request.num_prompt_tokens - num_computed",
    ),
]
