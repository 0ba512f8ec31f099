STORY = (
    "A learner takes a preempted request for one without a past and does not ask the cache. It computes "
    "again what lies there."
)
CONCEPT = (
    "In any run every step follows from who runs, who waits, what is free and the budget, and from nothing before."
)
EDITS = [
    (
        "computed_blocks, num_computed = kv.get_computed_blocks(request)",
        (
            "computed_blocks, num_computed = kv.get_computed_blocks(request)\n"
            "            if request.num_preemptions:\n"
            "                computed_blocks, num_computed = [], 0"
        ),
    ),
]
