STORY = (
    "A learner spares the first in the list, as under the other policy, where the oldest is never disturbed. An "
    "urgent newcomer gives way to a request that is in no hurry."
)
CONCEPT = "The victim is the least urgent of those that run, and the others keep their order."
EDITS = [
    (
        "max(self.running,",
        "max(self.running[1:] or self.running,",
    ),
]
