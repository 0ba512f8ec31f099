STORY = (
    "A learner puts whoever beats the head at the front, and the others at the back. The middle of the queue is "
    "in no order."
)
CONCEPT = "The queue is in order of urgency, whatever the order in which requests come."
EDITS = [
    (
        ('        if self.policy == "priority":\n            insort(self.waiting, request, key=urgency)\n'),
        (
            '        if self.policy == "priority":\n'
            "            if self.waiting and urgency(request) < urgency(self.waiting[0]):\n"
            "                self.waiting.appendleft(request)\n"
            "            else:\n"
            "                self.waiting.append(request)\n"
        ),
    ),
]
