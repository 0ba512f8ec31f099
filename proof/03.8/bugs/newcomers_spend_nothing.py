STORY = (
    "A learner forgets to pay. Every prompt is measured against the whole budget, and the step is as large as "
    "the queue."
)
CONCEPT = "Prompts share a step while they fit whole; the first that does not is deferred to the next, and not cut."
EDITS = [
    (
        "            token_budget -= n + num_charged\n",
        "",
    ),
]
