STORY = (
    "A learner goes by priority without looking at the policy. Requests that merely carry a number are thrown out"
    " first."
)
CONCEPT = (
    "The youngest gives way: the last that was admitted, whatever the size, the time or the priority of the others."
)
EDITS = [
    (
        ('if self.policy == "fcfs":\n            return self.running.pop()\n'),
        ("if len(self.running) == 1:\n            return self.running.pop()\n"),
    ),
]
