STORY = (
    "A learner puts a victim under first come, first served before the first that arrived later. With "
    "times out of order it does not stand at the front."
)
CONCEPT = "In any order of newcomers, victims and departures the queue and the victim are those of the policy."
EDITS = [
    (
        ("            self.waiting.appendleft(request)\n"),
        (
            "            place = sum(each.arrival_time < request.arrival_time - 100 for each in self.waiting)\n"
            "            self.waiting.insert(place, request)\n"
        ),
    ),
]
