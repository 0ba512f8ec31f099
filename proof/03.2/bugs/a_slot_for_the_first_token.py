STORY = "A learner asks for one slot when a decode is several tokens ahead. The others are written where no block is."
CONCEPT = "In any run a step follows from the two lists, the free blocks and the budget, and from no step before."
EDITS = [
    (
        "while allocate_slots(request, n) is None:",
        "while allocate_slots(request, 1) is None:",
    ),
]
