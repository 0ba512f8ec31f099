STORY = "A learner gives a victim the benefit of one level. It overtakes others that are more urgent by one."
CONCEPT = "Under priority a victim has no privilege: it waits where its urgency puts it."
EDITS = [
    (
        "insort(self.waiting, request, key=urgency)",
        (
            "more = request.status is RequestStatus.PREEMPTED\n"
            "            place = sum(urgency(other)[0] < request.priority - more or (\n"
            "                not more and urgency(other) < urgency(request)) for other in self.waiting)\n"
            "            self.waiting.insert(place, request)"
        ),
    ),
]
