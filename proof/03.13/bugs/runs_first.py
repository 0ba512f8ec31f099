STORY = "The newcomer runs before those that were there: it is served first, and never the victim."
CONCEPT = "An admitted request has left waiting, from any place in it, and runs last, past its head start."
EDITS = [
    (
        "        self.running.append(request)\n",
        "        self.running.insert(0, request)\n",
    ),
]
