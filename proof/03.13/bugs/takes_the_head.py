STORY = "_admit takes the head of waiting, whoever was to be admitted."
CONCEPT = "An admitted request has left waiting, from any place in it, and runs last, past its head start."
EDITS = [
    (
        "        self.waiting.remove(request)\n",
        "        self.waiting.popleft()\n",
    ),
]
