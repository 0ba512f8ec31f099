STORY = "The pool is large enough for everybody, and nobody gives way."
CONCEPT = "Starvation is a wrong place in the queue, long before: compare running requests with waiting ones."
EDITS = [
    (
        "run = Run(lab, blocks=blocks, budget=8)",
        "run = Run(lab, blocks=64, budget=8)",
    ),
    (
        "blocks=9, block_size=1, budget=9",
        "blocks=64, block_size=1, budget=9",
    ),
    (
        "run = Run(lab, budget=budget)",
        "run = Run(lab, blocks=64, budget=budget)",
    ),
]
