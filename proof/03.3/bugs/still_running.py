STORY = "A learner looks at the last request and leaves it in running. It stands in both lists and computes twice."
CONCEPT = "The youngest gives way: the last that was admitted, whoever else is small or cheap or late."
EDITS = [
    (
        "return self.running.pop()",
        "return self.running[-1]",
    ),
]
