STORY = (
    "A learner looks for the place among the last twelve, since a queue is short. In a longer one an "
    "urgent newcomer stands in the middle."
)
CONCEPT = "Whatever the numbers, the times and the names are, the queue is in the order that they make."
EDITS = [
    (
        "            insort(self.waiting, request, key=urgency)\n",
        "            insort(self.waiting, request, lo=max(0, len(self.waiting) - 12), key=urgency)\n",
    ),
]
