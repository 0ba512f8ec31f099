STORY = (
    "A learner looks for the victim among the last five, since the least urgent come last. Admission is "
    "not in order of urgency."
)
CONCEPT = "The victim is the least urgent of those that run, and the others keep their order."
EDITS = [
    (
        "max(self.running,",
        "max(self.running[-5:],",
    ),
]
