STORY = "No more than one request gives way before it is back, so there is no order among victims."
CONCEPT = "Starvation is a wrong place in the queue, long before: compare running requests with waiting ones."
EDITS = [
    (
        '    run = Run(lab, blocks=9, block_size=1, budget=9)\n    for name in "abcd":\n        run.add(name, 2, max_tokens=6)\n    run.to_the_end()\n',
        '    run = Run(lab, blocks=9, block_size=1, budget=9)\n    for name in "ab":\n        run.add(name, 2, max_tokens=6)\n    run.to_the_end()\n',
    ),
    (
        "blocks in (6, 7, 8)",
        "blocks in (9,)",
    ),
    (
        "run = Run(lab, budget=budget)",
        "run = Run(lab, budget=budget, seqs=2)",
    ),
]
