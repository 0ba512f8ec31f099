STORY = (
    "A learner walks from the back and stops in front of the last that is more urgent. Neighbours stand the wrong"
    " way round."
)
CONCEPT = "The queue is in order of urgency, whatever the order in which requests come."
EDITS = [
    (
        "insort(self.waiting, request, key=urgency)",
        (
            "place = len(self.waiting)\n"
            "            while place > 1 and urgency(request) < urgency(self.waiting[place - 1]):\n"
            "                place -= 1\n"
            "            self.waiting.insert(place, request)"
        ),
    ),
]
