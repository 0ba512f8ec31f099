STORY = "A learner leaves the victims as they were. The most urgent request, just admitted, is the first to go."
CONCEPT = "The victim is the least urgent of those that run, and the others keep their order."
EDITS = [
    (
        ('        if self.policy == "fcfs":\n            return self.running.pop()\n'),
        ("        return self.running.pop()\n"),
    ),
]
