STORY = "A learner notes that everything comes from the connector, the hit as well."
CONCEPT = "What comes from main memory is no hit of the prefix cache, and is counted for one step."
EDITS = [
    (
        "Load(request, start, end)",
        "Load(request, 0, end)",
    ),
]
