STORY = "A learner lets a victim overtake newcomers of its priority, since it has begun. It is to stand by its arrival."
CONCEPT = "In any order of newcomers, victims and departures the queue and the victim are those of the policy."
EDITS = [
    (
        ("            insort(self.waiting, request, key=urgency)\n"),
        (
            "            started = {True: 0, False: 1}\n"
            "            insort(\n"
            "                self.waiting,\n"
            "                request,\n"
            "                key=lambda each: (each.priority, started[each.num_preemptions > 0], each.arrival_time, each.request_id),\n"
            "            )\n"
        ),
    ),
]
