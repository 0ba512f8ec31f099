STORY = "A learner asks for one slot when a decode is several tokens ahead. The others are written where no block is."
CONCEPT = (
    "In any run every step follows from who runs, who waits, what is free and the budget, and from nothing before."
)
EDITS = [
    (
        "while allocate_slots(request, n) is None:",
        "while allocate_slots(request, 1) is None:",
    ),
]
