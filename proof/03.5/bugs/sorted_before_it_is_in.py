STORY = "A learner sorts the queue and appends afterwards. The newcomer is always last."
CONCEPT = "The queue is in order of urgency, whatever the order in which requests come."
EDITS = [
    (
        "insort(self.waiting, request, key=urgency)",
        (
            "ordered = sorted(self.waiting, key=urgency)\n"
            "            self.waiting.clear()\n"
            "            self.waiting.extend([*ordered, request])"
        ),
    ),
]
