STORY = "A learner puts a victim in front of newcomers but behind earlier victims. The younger one comes back first."
CONCEPT = "A victim goes before all that wait, and an older victim before a younger."
EDITS = [
    (
        ("        self._enqueue(request)\n"),
        (
            "        place = sum(other.status is RequestStatus.PREEMPTED for other in self.waiting)\n"
            "        self.waiting.insert(place, request)\n"
        ),
    ),
]
