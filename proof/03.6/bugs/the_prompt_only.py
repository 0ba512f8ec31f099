STORY = "A learner reserves for the prompt. A preempted request comes back with a long output that has no place."
CONCEPT = "All that a request knows is reserved, its output with it; what it may still say is not."
EDITS = [
    (
        ("num_tokens = request.num_tokens\n"),
        ("num_tokens = request.num_prompt_tokens\n"),
    ),
]
