STORY = "A learner forgets to ask for the policy. Numbers that some clients send decide under first come, first served."
CONCEPT = "Under first come, first served the numbers mean nothing: newcomers at the back, victims at the front."
EDITS = [
    (
        (
            '        if self.policy == "priority":\n'
            "            insort(self.waiting, request, key=urgency)\n"
            "        elif request.status is RequestStatus.PREEMPTED:\n"
            "            self.waiting.appendleft(request)\n"
            "        else:\n"
            "            self.waiting.append(request)\n"
        ),
        ("        insort(self.waiting, request, key=urgency)\n"),
    ),
]
