STORY = (
    "A learner makes the chunk of a running request smaller until it fits, and preempts only if not one "
    "token does. The request falls behind, and those behind it keep their blocks."
)
CONCEPT = "In any run a step follows from the two lists, the free blocks and the budget, and from no step before."
EDITS = [
    (
        ("            while allocate_slots(request, n) is None:\n"),
        (
            "            while allocate_slots(request, n) is None:\n"
            "                if n > 1:\n"
            "                    n -= 1\n"
            "                    continue\n"
        ),
    ),
]
