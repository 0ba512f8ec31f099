STORY = "A learner rebuilds the queue as a list when a victim comes back. Nobody can take its head any more."
CONCEPT = "The queue stays a deque; a newcomer is put into it, and no request leaves it."
EDITS = [
    (
        ("            insort(self.waiting, request, key=urgency)\n"),
        (
            "            if request.num_preemptions:\n"
            "                self.waiting = sorted([*self.waiting, request], key=urgency)\n"
            "            else:\n"
            "                insort(self.waiting, request, key=urgency)\n"
        ),
    ),
]
