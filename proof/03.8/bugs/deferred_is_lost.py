STORY = (
    "A learner takes the head out of the queue to look at it, and does not put it back. A deferred request is in "
    "neither list."
)
CONCEPT = "Deferred is not refused: the head keeps its place, and nobody behind it passes."
EDITS = [
    (
        "            request = self.waiting[0]\n",
        "            request = self.waiting.popleft()\n",
    ),
    (
        "            self._admit(request, num_computed)\n",
        ("            self.waiting.appendleft(request)\n            self._admit(request, num_computed)\n"),
    ),
]
