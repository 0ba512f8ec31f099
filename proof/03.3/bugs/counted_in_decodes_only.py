STORY = (
    "A learner counts a preemption if the request has said something. A long prompt that is thrown out "
    "again and again seems undisturbed."
)
CONCEPT = "In any run a victim is the last, gives back all but its tokens, and stands at the front of the queue."
EDITS = [
    (
        "request.num_preemptions += 1",
        "request.num_preemptions += bool(request.output_token_ids)",
    ),
]
