STORY = (
    "A learner moves the counter before it asks for slots. The manager adds the hit to it again and hands out too"
    " many blocks."
)
CONCEPT = "A prefix hit is a head start: only what is missing is computed, the rest of the table is shared."
EDITS = [
    (
        ("            if kv.allocate_slots(request, n, computed_blocks) is None:\n                break\n"),
        (
            "            request.num_computed_tokens = num_computed\n"
            "            if kv.allocate_slots(request, n, computed_blocks) is None:\n"
            "                break\n"
        ),
    ),
]
