STORY = "A learner notes the hit in blocks. The manager takes it for tokens and withdraws what was there."
CONCEPT = "Blocks that were to be filled are not: after a failed step no request may find them in the prefix cache."
EDITS = [
    (
        "Load(request, start, end)",
        "Load(request, len(computed_blocks), end)",
    ),
]
