STORY = (
    "A learner takes a preempted request for one without a past and does not ask the cache. It computes "
    "again what lies there."
)
CONCEPT = "In any run a step follows from the two lists, the free blocks and the budget, and from no step before."
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
