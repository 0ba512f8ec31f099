STORY = "A learner makes a deque that holds what waits now. Whoever puts another one in pushes the most urgent out."
CONCEPT = "The queue stays a deque; a newcomer is put into it, and no request leaves it."
EDITS = [
    (
        "            insort(self.waiting, request, key=urgency)\n",
        "            everybody = sorted([*self.waiting, request], key=urgency)\n            self.waiting = type(self.waiting)(everybody, maxlen=len(everybody))\n",
    )
]
