STORY = (
    "A learner takes the head out of the queue to look at it, and does not put it back. A deferred request is in "
    "neither list."
)
CONCEPT = "A deferred head is not refused: it keeps its place, and no request behind it passes."
EDITS = [
    (
        "            request = self._next_waiting()\n",
        "            request = self.waiting.popleft() if self.waiting else None\n",
    ),
    (
        "            self._admit(request, num_computed)\n",
        ("            self.waiting.appendleft(request)\n            self._admit(request, num_computed)\n"),
    ),
]
