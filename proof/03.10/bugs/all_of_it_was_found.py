STORY = "A learner notes a load of nothing, and its blocks can be found although nothing filled them."
CONCEPT = "Blocks that were to be filled are not: after a failed step no request may find them in the prefix cache."
EDITS = [
    (
        "Load(request, start, end)",
        "Load(request, end, end)",
    ),
]
