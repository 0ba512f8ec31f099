STORY = (
    "A learner keeps the rule of the other policy: a victim goes to the front. It comes back before the urgent "
    "request that took its blocks, and loses them again."
)
CONCEPT = "Under priority a victim has no privilege: it waits where its urgency puts it."
EDITS = [
    (
        (
            '        if self.policy == "priority":\n'
            "            insort(self.waiting, request, key=urgency)\n"
            "        elif request.status is RequestStatus.PREEMPTED:\n"
            "            self.waiting.appendleft(request)\n"
        ),
        (
            "        if request.status is RequestStatus.PREEMPTED:\n"
            "            self.waiting.appendleft(request)\n"
            '        elif self.policy == "priority":\n'
            "            insort(self.waiting, request, key=urgency)\n"
        ),
    ),
]
