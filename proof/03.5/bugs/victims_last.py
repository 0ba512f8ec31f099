STORY = "A learner sends victims to the back as a penalty. They are overtaken by all that are less urgent."
CONCEPT = "Under priority a victim has no privilege: it waits where its urgency puts it."
EDITS = [
    (
        "            insort(self.waiting, request, key=urgency)",
        (
            "            if request.status is RequestStatus.PREEMPTED:\n"
            "                self.waiting.append(request)\n"
            "            else:\n"
            "                insort(self.waiting, request, key=urgency)"
        ),
    ),
]
