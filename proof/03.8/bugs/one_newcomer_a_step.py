STORY = (
    "A learner admits with an if in place of a loop. Each prompt takes a step of its own, and the batch is never large."
)
CONCEPT = "Prompts share a step while they fit whole; the first that does not is deferred to the next, and not cut."
EDITS = [
    (
        "            token_budget -= n + num_charged\n",
        ("            token_budget -= n + num_charged\n            break\n"),
    ),
]
