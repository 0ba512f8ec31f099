STORY = (
    "A learner sets the counter when it looks the prefix up, to be ready. A request that is refused keeps it, and"
    " later skips tokens that are gone."
)
CONCEPT = "A refusal changes nothing: the request that does not fit keeps its counter, its status and its place."
EDITS = [
    (
        "computed_blocks, num_computed = kv.get_computed_blocks(request)",
        (
            "computed_blocks, num_computed = kv.get_computed_blocks(request)\n"
            "            request.num_computed_tokens = num_computed"
        ),
    ),
    (
        "if kv.allocate_slots(",
        ("request.num_computed_tokens = 0\n            if kv.allocate_slots("),
    ),
]
