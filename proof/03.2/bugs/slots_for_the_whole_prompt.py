STORY = (
    "A learner asks for slots for everything the newcomer knows, and computes a chunk. Blocks lie idle, and a "
    "prompt that would begin now is refused."
)
CONCEPT = "A step that had to preempt admits no request; in the next step the victim may come back."
EDITS = [
    (
        ("            if kv.allocate_slots(request, n, computed_blocks) is None:\n                break\n"),
        (
            "            if kv.allocate_slots(request, request.num_tokens - num_computed, computed_blocks) is None:\n                break\n"
        ),
    ),
]
