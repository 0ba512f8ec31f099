STORY = (
    "A learner forgets the queue: priority is asked only when somebody has to give way. An urgent request waits "
    "behind everybody."
)
CONCEPT = "The queue is in order of urgency, whatever the order in which requests come."
EDITS = [
    (
        (
            '        if self.policy == "priority":\n'
            "            insort(self.waiting, request, key=urgency)\n"
            "        elif request.status is RequestStatus.PREEMPTED:\n"
            "            self.waiting.appendleft(request)\n"
        ),
        ("        if request.status is RequestStatus.PREEMPTED:\n            self.waiting.appendleft(request)\n"),
    ),
]
