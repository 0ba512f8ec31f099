STORY = (
    "A learner takes the victim from the front of the list. The request that has waited longest starts again, and"
    " again."
)
CONCEPT = (
    "The youngest gives way: the last that was admitted, whatever the size, the time or the priority of the others."
)
EDITS = [
    (
        "return self.running.pop()",
        "return self.running.pop(0)",
    ),
]
