STORY = "A learner looks at the last request and leaves it in running. It stands in both lists and computes twice."
CONCEPT = (
    "The youngest gives way: the last that was admitted, whatever the size, the time or the priority of the others."
)
EDITS = [
    (
        "return self.running.pop()",
        "return self.running[-1]",
    ),
]
