STORY = "A learner sorts with reverse, since the head is the last element of a stack. The least urgent is admitted."
CONCEPT = "The queue is in order of urgency, whatever the order in which requests come."
EDITS = [
    (
        "insort(self.waiting, request, key=urgency)",
        (
            "self.waiting.append(request)\n"
            "            ordered = sorted(self.waiting, key=urgency, reverse=True)\n"
            "            self.waiting.clear()\n"
            "            self.waiting.extend(ordered)"
        ),
    ),
]
