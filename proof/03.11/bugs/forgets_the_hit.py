STORY = (
    "The hit is not handed on to the usual method. The request has slots for its last tokens alone, in "
    "the place of its first."
)
CONCEPT = "A request that is admitted with a prefix hit gets the hit's blocks and pays for them as usual."
EDITS = [
    (
        ("        return super().allocate_slots(request, num_new_tokens, computed_blocks)\n"),
        ("        return super().allocate_slots(request, num_new_tokens)\n"),
    ),
]
